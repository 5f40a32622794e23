package batch

import (
	"context"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// window is the lines in flight. The server gets their requests in the order of the lines. The
// goroutine of the batch calls its methods; those of the printer say so.
type window struct {
	b        *Batch
	ctx      context.Context   // of the lines
	pending  chan *pendingLine // started and not taken by the printer yet, oldest first
	printed  chan struct{}     // capacity 1: a line has been printed
	stopped  chan struct{}     // closed when the batch must not continue
	jobs     chan func()       // for the goroutines of lines
	printer  *printer
	printing sync.WaitGroup // the printer's goroutine
	group    *group         // nil unless the batch stops at its first error

	quotasAt zkconn.Ensemble // the session for which quotas is known
	quotas   bool        // the ensemble has quotas

	mu      sync.Mutex // guards these
	open    int        // number of lines that have started and are not printed
	allowed int        // maximum of open, because of the size of the answers
	most    int        // maximum of open in any case
}

const (
	// firstWindow is the number of lines in flight before the size of any answer is known.
	// It doubles with each round trip.
	firstWindow = 4
	// maxUnprinted is about the number of bytes of answers that wait until they can be printed.
	maxUnprinted = 4 << 20
	// maxLineInWindow is the maximum length of a line that is in flight with others. A server
	// drops a connection, and with it all that is in flight, over a request that is too long.
	maxLineInWindow = 512 << 10
)

func newWindow(ctx context.Context, b *Batch) *window {
	w := &window{b: b, ctx: ctx, stopped: make(chan struct{}), jobs: make(chan func()), printed: make(chan struct{}, 1), most: max(1, b.opts.Window)}
	w.printer = &printer{w: w}
	if b.opts.StopAtError && w.most > 1 {
		w.most, w.group = 1, &group{w: w}
	}
	w.allowed = min(firstWindow, w.most)
	w.pending = make(chan *pendingLine, w.most)
	if w.group == nil { // a group prints its lines itself
		w.printing.Go(w.printer.run) // ends with pending, see close
	}
	return w
}

// close waits for all lines in flight, and prints them.
func (w *window) close() {
	w.group.flush()
	close(w.pending)
	w.printing.Wait()
	close(w.jobs)
}

// joins reports whether the line is a single write that can be part of a transaction.
func joins(p *pendingLine) bool { return p.line.Has(commands.Joins) }

// accepts reports whether a line of this size in bytes can be in flight together with others.
func (w *window) accepts(p *pendingLine, size int) bool {
	return p.err == nil && !w.b.txns.isOpen() && p.line.Has(commands.OneRequest) && size <= maxLineInWindow &&
		(cap(w.pending) > 1 || w.group.accepts(p)) &&
		!(p.line.Has(commands.Quotas) && w.hasQuotas()) && !w.fenceMayFall() &&
		!(p.line.Has(commands.Destroys) && w.b.env.Keeper != nil)
}

// fenceMayFall reports whether later lines are to be written although a line fails because a
// lock is gone.
func (w *window) fenceMayFall() bool {
	if !w.b.opts.GoOn {
		return false
	}
	fenced, err := w.b.env.Session.Fenced(w.ctx)
	return fenced || err != nil
}

// hasQuotas asks the server, once for each session, and again after a line that may set a quota
// has run alone. If zksh may not read quotas, it assumes that there are none.
func (w *window) hasQuotas() bool {
	session := w.b.env.Session
	if now := session.Ensemble(); now != w.quotasAt {
		list, err := zkconn.Do(w.ctx, session.Absolute(), zkconn.List(zkconn.QuotaPath))
		w.quotasAt, w.quotas = now, err == nil && len(list.Names) > 0
	}
	return w.quotas
}

// ranAlone notes that a line runs outside of the window.
func (w *window) ranAlone(p *pendingLine) {
	if p.line.Has(commands.Quotas) {
		w.quotasAt = zkconn.Ensemble{}
	}
}

// begin waits for room, starts a line, and waits until its request is after that of the line
// before. It reports whether the batch continues.
func (w *window) begin(p *pendingLine) bool {
	if w.group != nil {
		return w.group.begin(p)
	}
	if w.isStopped() { // while a line was being read
		return false
	}
	for !w.enter(p) {
		select {
		case <-w.printed:
		case <-w.stopped:
			return false
		}
	}
	sent, ended := w.start(w.ctx, p, w.oneByOne())
	w.pending <- p // from now on it belongs to the printer
	await(sent, ended)
	return true
}

// await waits until the request of a line has been handed over, or its command has ended.
func await(sent, ended <-chan struct{}) {
	select {
	case <-sent:
	case <-ended:
	}
}

// start runs the command of a line in a goroutine. alone: no request is sent after that of the
// line before it is answered. The channels are closed when the request has been handed over,
// and when the command has ended. The printer calls it, too.
func (w *window) start(ctx context.Context, p *pendingLine, alone bool) (sent, over <-chan struct{}) {
	trip, ended := zkconn.NewTrip(), make(chan struct{})
	trip.Alone = alone
	p.trip, p.ended, p.err = trip, ended, nil
	p.out.reset(toOutput | toJSON | toNote | toAlert)
	env := p.out.Env(w.b.env, p.line, p.before)
	w.work(func() { // the printer waits for it
		defer close(ended)
		p.err = ending(p.number, run(trip.Context(ctx), env, p.line))
		trip.Hold(env.Session)
	})
	return trip.Sent, ended
}

// work runs do in a goroutine: in one that has run a line before, if one is free, because its
// stack has already grown. They end with close.
func (w *window) work(do func()) {
	select {
	case w.jobs <- do:
	default:
		go func() {
			for ; do != nil; do = <-w.jobs {
				do()
			}
		}()
	}
}

// enter takes a place for a line. The answer to a write is small, so that it need not wait until
// the size of the answers is known.
func (w *window) enter(p *pendingLine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed := w.allowed
	if joins(p) {
		allowed = w.most
	}
	if w.open >= allowed {
		return false
	}
	w.open++
	return true
}

// leave notes that a line has been printed. The window is as wide as answers of this size
// allow. The printer calls it.
func (w *window) leave(p *pendingLine) {
	p.trip.Printed()
	p.out.reset(0) // the goroutine of the line may keep the transcript, but not its output
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	switch size := p.trip.Size; {
	case size*w.allowed > maxUnprinted:
		w.allowed = max(1, maxUnprinted/size)
	default:
		w.allowed = min(w.most, w.allowed+1)
	}
	select {
	case w.printed <- struct{}{}:
	default:
	}
}

// drain waits until all lines that have started are printed, and reports whether the batch
// continues.
func (w *window) drain() bool {
	w.group.flush()
	for w.busy() {
		<-w.printed
	}
	return !w.isStopped()
}

func (w *window) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open > 0 || w.group.busy()
}

// stop makes the batch not continue. The printer calls it.
func (w *window) stop() { close(w.stopped) }

func (w *window) isStopped() bool { return isClosed(w.stopped) }

// oneByOne reports whether each line waits for the answer to the one before.
func (w *window) oneByOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most == 1
}

// startOneByOne makes each line from now on wait for the answer to the one before. It returns
// the number of lines that have started after the one that is being printed. The printer calls it.
func (w *window) startOneByOne() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most, w.allowed = 1, 1
	return w.open - 1
}
