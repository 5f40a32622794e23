package batch

import (
	"context"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// A window manages the lines in flight. The server receives their requests in the order of the
// lines. Only the goroutine of the batch calls the methods of a window, unless a comment says that
// the printer calls a method.
type window struct {
	b        *Batch
	ctx      context.Context   // context of the lines
	pending  chan *pendingLine // lines that have started but that the printer has not taken yet, oldest first
	printed  chan struct{}     // receives a value after a line has been printed; capacity 1
	stopped  chan struct{}     // closed when no further line may start
	jobs     chan func()       // passes work to the idle goroutines of earlier lines
	printer  *printer
	printing sync.WaitGroup // waits for the goroutine of the printer

	quotasEnsemble zkconn.Ensemble // ensemble that quotas refers to; zero if quotas is unknown
	quotas         bool            // whether the ensemble has quotas

	mu        sync.Mutex // guards the fields below
	unprinted int        // number of lines that have started but have not been printed
	places    int        // current maximum of unprinted, adapted to the size of the answers
	limit     int        // maximum value of places
}

const (
	// firstWindow is the number of lines in flight before the size of any answer is known. The
	// number doubles with each round trip.
	firstWindow = 4
	// maxUnprinted is the approximate maximum total size, in bytes, of the answers that wait to be
	// printed.
	maxUnprinted = 4 << 20
	// maxLineInWindow is the maximum length, in bytes, of a line that may be in flight with
	// others. If a request is too long, the server closes the connection, and all requests in
	// flight fail.
	maxLineInWindow = 512 << 10
)

func newWindow(ctx context.Context, b *Batch) *window {
	w := &window{b: b, ctx: ctx, stopped: make(chan struct{}), jobs: make(chan func()), printed: make(chan struct{}, 1),
		limit: max(1, b.opts.Window)}
	if b.opts.StopAtError {
		w.limit = 1
	}
	w.printer = &printer{w: w}
	w.places = min(firstWindow, w.limit)
	w.pending = make(chan *pendingLine, w.limit)
	w.printing.Go(w.printer.run) // ends when close has closed pending
	return w
}

// close waits until all lines in flight have been printed, and ends the goroutines of the window.
func (w *window) close() {
	close(w.pending)
	w.printing.Wait()
	close(w.jobs)
}

// canJoin reports whether the line is a single write that can be part of a transaction.
func canJoin(p *pendingLine) bool { return p.line.Has(commands.Joins) }

// accepts reports whether a line of the given size, in bytes, can be in flight together with other
// lines.
func (w *window) accepts(p *pendingLine, size int) bool {
	return p.err == nil && !w.b.transactions.isOpen() && p.line.Has(commands.OneRequest) && size <= maxLineInWindow &&
		cap(w.pending) > 1 &&
		!(p.line.Has(commands.Quotas) && w.hasQuotas()) && !w.continuesUnfenced() &&
		!w.mustRecord(p)
}

// mustRecord reports whether the line must be recorded for undo, so that no other line may change the
// same znodes meanwhile. A file of --undo contains nothing about new znodes.
func (w *window) mustRecord(p *pendingLine) bool {
	rec := w.b.env.Recorder
	return rec != nil && (p.line.Has(commands.Destroys) || !rec.Required())
}

// continuesUnfenced reports whether writes depend on a lock, although the script continues after
// the lock is lost (-k). It also returns true if this is not known. Lines of such a script must not
// be in flight together.
func (w *window) continuesUnfenced() bool {
	if !w.b.opts.KeepGoing {
		return false
	}
	fenced, err := w.b.env.Session.Fenced(w.ctx)
	return fenced || err != nil
}

// hasQuotas reports whether the ensemble has quotas. It asks the server once after each connect to
// an ensemble, and again after a line that may have set a quota. If zksh has no permission to read
// the quotas, hasQuotas assumes that there are none.
func (w *window) hasQuotas() bool {
	session := w.b.env.Session
	if now := session.Ensemble(); now != w.quotasEnsemble {
		list, err := zkconn.Do(w.ctx, session.Absolute(), zkconn.List(zkconn.QuotaPath))
		w.quotasEnsemble, w.quotas = now, err == nil && len(list.Names) > 0
	}
	return w.quotas
}

// noteRunAlone is called before a line runs outside the window. If the line may set a quota,
// noteRunAlone makes the next call of hasQuotas ask the server again.
func (w *window) noteRunAlone(p *pendingLine) {
	if p.line.Has(commands.Quotas) {
		w.quotasEnsemble = zkconn.Ensemble{}
	}
}

// begin waits until the window has room, starts a line, and waits until the request of the line
// has been handed to the connection, so that requests stay in order. It reports whether the batch
// continues.
func (w *window) begin(p *pendingLine) bool {
	if w.isStopped() { // the printer may stop the batch at any time
		return false
	}
	for !w.reserve(p) {
		select {
		case <-w.printed:
		case <-w.stopped:
			return false
		}
	}
	sent, ended := w.start(w.ctx, p, w.oneByOne())
	w.pending <- p // from now on, only the printer may use p
	await(sent, ended)
	return true
}

// await waits until the request of a line has been handed to the connection or the command of the
// line has ended.
func await(sent, ended <-chan struct{}) {
	select {
	case <-sent:
	case <-ended:
	}
}

// start runs the command of a line in a goroutine. If alone is true, no other request is sent
// until the request of the line has been answered. The channel sent is closed when the request has
// been handed to the connection, and done is closed when the command has ended. The printer calls
// start, too.
func (w *window) start(ctx context.Context, p *pendingLine, alone bool) (sent, done <-chan struct{}) {
	trip, ended := zkconn.NewTrip(), make(chan struct{})
	trip.Alone = alone
	p.trip, p.ended, p.err = trip, ended, nil
	p.out.reset(toOutput | toJSON | toNote | toAlert)
	env := p.out.Env(w.b.env, p.line, p.priorErr)
	w.goReuse(func() { // ends with the command; the printer waits for that
		defer close(ended)
		p.err = asEndedError(p.number, run(trip.Context(ctx), env, p.line))
		trip.Hold(env.Session)
	})
	return trip.Queued, ended
}

// goReuse calls do in a goroutine. It reuses an idle goroutine that has run an earlier line,
// because the stack of such a goroutine has already grown. All these goroutines end after close.
func (w *window) goReuse(do func()) {
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

// reserve reserves a place in the window for a line, and reports whether a place was free. A write
// may use the whole window at once, because its answer is small.
func (w *window) reserve(p *pendingLine) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed := w.places
	if canJoin(p) {
		allowed = w.limit
	}
	if w.unprinted >= allowed {
		return false
	}
	w.unprinted++
	return true
}

// release frees the place of a line that has been printed. It then adapts the number of places to
// the size of the line's answer. The printer calls it.
func (w *window) release(p *pendingLine) {
	p.trip.Printed()
	p.out.reset(0) // free the output, even if the goroutine of the line still refers to the transcript
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unprinted--
	switch size := p.trip.Size; {
	case size*w.places > maxUnprinted:
		w.places = max(1, maxUnprinted/size)
	default:
		w.places = min(w.limit, w.places+1)
	}
	select {
	case w.printed <- struct{}{}:
	default:
	}
}

// drain waits until all lines in flight have been printed, and reports whether the batch
// continues.
func (w *window) drain() bool {
	for w.busy() {
		<-w.printed
	}
	return !w.isStopped()
}

func (w *window) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unprinted > 0
}

// stop ends the batch, so that no further line starts. The printer calls it.
func (w *window) stop() { close(w.stopped) }

func (w *window) isStopped() bool { return isClosed(w.stopped) }

// oneByOne reports whether each line waits for the answer to the previous one.
func (w *window) oneByOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit == 1
}

// startOneByOne makes every further line wait for the answer to the previous one. It returns the
// number of lines that were started after the line that is being printed. The printer calls it.
func (w *window) startOneByOne() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.places = 1, 1
	return w.unprinted - 1
}
