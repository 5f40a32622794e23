package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
)

// window is the lines of a batch that are under way. A line that is one request is
// begun as soon as the request of the line before it has been handed to the
// connection, so that the server gets them in their order. What lines show is told in
// their order too, by a goroutine of its own. All other lines run alone.
type window struct {
	b       *script
	ctx     context.Context // of the lines
	steps   chan *step      // those begun and not told yet, oldest first
	over    chan struct{}   // closed when the batch is not to go on
	jobs    chan func()     // for the goroutines of lines
	told    chan struct{}   // capacity 1: a step was
	aside   []*step         // behind one that was throttled; the teller's
	deaf    bool            // no more is told: nobody takes it, or it is of lines that were refused with one; the teller's
	held    []*step         // told, but for what pour does; the teller's
	at      zkconn.Stay     // where it is known whether there are quotas
	quotas  bool            // whether there are
	teller  sync.WaitGroup
	mu      sync.Mutex // guards these
	open    int        // how many steps have been begun and not told
	allowed int        // how many may be, for the size of the answers
	most    int        // how many may be at all
	exact   *exact     // nil unless the batch stops at its first error
}

const (
	// firstWindow is how many lines may be under way before the size of any answer is
	// known. It doubles with each round trip.
	firstWindow = 4
	// maxUntold is about how many bytes of answers are kept until they can be printed.
	maxUntold = 4 << 20
	// maxLineInWindow is the length of a line that may be under way with others. A server
	// drops a connection with all that is under way over a request that is too long.
	maxLineInWindow = 512 << 10
)

func newWindow(ctx context.Context, b *script) *window {
	w := &window{b: b, ctx: ctx, over: make(chan struct{}), jobs: make(chan func()), told: make(chan struct{}, 1), most: max(1, b.s.cfg.Window)}
	if b.s.cfg.StopAtError && w.most > 1 {
		w.most, w.exact = 1, &exact{w: w}
	}
	w.allowed = min(firstWindow, w.most)
	w.steps = make(chan *step, w.most)
	if w.exact != nil { // it tells of its lines itself
		return w
	}
	w.teller.Go(func() { // ends with steps, see close
		for st := w.take(); st != nil; st = w.take() {
			w.tellFrom(st)
			for len(w.aside) > 0 {
				w.tellFrom(w.next())
			}
		}
		w.pour()
	})
	return w
}

// take gives the next step, and nil when there will be none.
func (w *window) take() *step {
	select {
	case st := <-w.steps:
		return st
	default:
		w.pour()
		return <-w.steps
	}
}

// await waits for the end of a step's command, and has what was told before it seen.
func (w *window) await(st *step) {
	select {
	case <-st.ended:
	default:
		w.pour()
		<-st.ended
	}
}

// pour has all be seen that was told: the answers that are there at the same time go
// out in one write.
func (w *window) pour() {
	if err := exit.Unwritten(w.b.s.screen.pour()); err != nil {
		w.b.fail("", err)
		w.end(err)
	}
	for _, st := range w.held {
		w.leave(st)
	}
	w.held = nil
}

// close waits for all that is under way, and tells of it.
func (w *window) close() {
	w.exact.flush()
	close(w.steps)
	w.teller.Wait()
	close(w.jobs)
}

// takes tells whether a line of so many bytes can be under way with others.
func (w *window) takes(st *step, size int) bool {
	return st.err == nil && w.b.s.txn == nil && st.line.Has(commands.OneRequest) && size <= maxLineInWindow && (cap(w.steps) > 1 || w.exact.takes(st)) &&
		!(st.line.Has(commands.Quotas) && w.anyQuotas()) && !w.fenceMayFall() &&
		!(st.line.Has(commands.Destroys) && w.b.s.env.Keeper != nil)
}

// fenceMayFall tells whether what stands behind a line is to be written although a lock
// is gone that the line was refused for.
func (w *window) fenceMayFall() bool {
	if !w.b.s.cfg.GoOn {
		return false
	}
	fenced, err := w.b.s.cfg.Session.Fenced(w.ctx)
	return fenced || err != nil
}

// anyQuotas asks the server, once for each ensemble, and again after alone has run what
// may set one. Where it may not be asked, none is assumed.
func (w *window) anyQuotas() bool {
	session := w.b.s.cfg.Session
	if now := session.Stay(); now != w.at {
		names, _, err := session.Absolute().Children(w.ctx, zkconn.QuotaPath, false)
		w.at, w.quotas = now, err == nil && len(names) > 0
	}
	return w.quotas
}

// alone is told of a line that has run outside the window.
func (w *window) alone(st *step) {
	if st.line.Has(commands.Quotas) {
		w.at = zkconn.Stay{}
	}
}

// begin waits for room and then until the line's request stands behind the one
// before. It is false if the batch does not go on.
func (w *window) begin(st *step) bool {
	if w.exact != nil {
		return w.exact.begin(st)
	}
	if w.isOver() { // and a line had been read
		return false
	}
	for !w.enter(st) {
		select {
		case <-w.told:
		case <-w.over:
			return false
		}
	}
	sent, ended := w.start(w.ctx, st, w.single())
	w.steps <- st // which is the teller's from now on
	select {
	case <-sent:
	case <-ended:
	}
	return true
}

// start runs a step's command; nothing is sent behind its request if it is alone. It
// gives what is closed when the request has been handed over, and when the command has
// ended.
func (w *window) start(ctx context.Context, st *step, alone bool) (sent, over <-chan struct{}) {
	trip, ended := zkconn.NewTrip(), make(chan struct{})
	trip.Alone = alone
	st.trip, st.ended, st.shown, st.err = trip, ended, nil, nil
	env := *w.b.s.env
	st.Screen, env.Screen = env.Screen, st
	if st.gathered != nil {
		st.gathered.Screen, st.gathered.values = st, nil
	}
	w.work(func() { // waited for by who tells of it
		defer close(ended)
		st.err = batch.Ending(st.number, run(trip.Context(ctx), st.gathered.in(&env, st.cmd, st.number, st.line, st.before), st.line))
		trip.Hold(env.Session)
	})
	return trip.Sent, ended
}

// enter takes a place for a step. The answer to a write is small: it need not wait until
// the size of answers is known.
func (w *window) enter(st *step) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	allowed := w.allowed
	if st.line.Has(commands.Joins) {
		allowed = w.most
	}
	if w.open >= allowed {
		return false
	}
	w.open++
	return true
}

// leave takes note that a step has been told. The window is as wide as answers of
// the size of its own allow.
func (w *window) leave(st *step) {
	st.trip.Printed()
	st.shown = nil // others may keep the step, but not its answer
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open--
	switch size := st.trip.Size; {
	case size*w.allowed > maxUntold:
		w.allowed = max(1, maxUntold/size)
	default:
		w.allowed = min(w.most, w.allowed+1)
	}
	select {
	case w.told <- struct{}{}:
	default:
	}
}

// drain waits until all that was begun has been told. It is false if the batch does
// not go on.
func (w *window) drain() bool {
	w.exact.flush()
	for w.busy() {
		<-w.told
	}
	return !w.isOver()
}

func (w *window) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open > 0 || w.exact.busy()
}

func (w *window) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// tellFrom tells of a step. Of the steps that are cut off with it, if it is, it tells
// at once.
func (w *window) tellFrom(st *step) {
	w.await(st)
	if (st.stale || errors.Is(st.err, zkconn.Throttled)) && !st.trip.Alone && !w.isOver() {
		w.pour()
		w.again(st)
	}
	together := []*step{st}
	var next *step
	for st.cutOff() && next == nil {
		if next = w.next(); next == nil || !next.begun() {
			break
		}
		// When the batch is interrupted, an answer may still be taken that comes behind one
		// that is not: the line counts with those before it.
		if w.await(next); next.cutOff() || w.ctx.Err() != nil {
			together, next = append(together, next), nil
		}
	}
	w.show(together)
	w.held = append(w.held, together...)
	if next != nil {
		w.tellFrom(next)
	}
}

// show tells of steps, and ends the batch if that is what has become of them. What they
// print may be seen only when pour has been called.
func (w *window) show(together []*step) { w.end(w.tell(together)) }

// end ends the batch if that is what becomes of an error.
func (w *window) end(err error) {
	w.deaf = w.deaf || errors.As(err, new(*exit.WriteError))
	if w.b.over(err) && !w.isOver() {
		w.deaf = w.deaf || errors.As(err, new(*zkconn.FencedError)) || batch.Ends(err)
		close(w.over)
	}
}

// next takes the step behind those taken before, if one has been begun.
func (w *window) next() (st *step) {
	if len(w.aside) > 0 {
		st, w.aside = w.aside[0], w.aside[1:]
		return st
	}
	select {
	case st = <-w.steps:
	default:
	}
	return st
}

// tell prints what one step has shown, after the events that came before its answer on
// the wire, or what is known of several that were cut off.
func (w *window) tell(together []*step) error {
	if w.ctx.Err() != nil { // lines that were not sent are as if they had not been read
		asked := slices.DeleteFunc(slices.Clone(together), func(st *step) bool { return !st.sent() })
		if len(asked) == 0 && w.isOver() {
			return nil
		}
		together = slices.Concat(asked, together)[:max(1, len(asked))]
	}
	b, last := w.b, together[len(together)-1]
	b.line, b.upTo = together[0].number, last.number
	defer func() { b.upTo = 0 }()
	if w.isOver() && errors.As(last.err, new(*zkconn.FencedError)) { // as is all behind it
		w.deaf = true
	}
	if w.deaf {
		return nil
	}
	b.s.screen.hold()
	eventErr := b.s.show(func() []zkconn.Event {
		if errors.Is(last.err, zkconn.SessionExpired) { // no answer: what is gone with the session is told with it
			return b.s.cfg.Session.Events()
		}
		return b.s.cfg.Session.EventsBefore(last.trip)
	})
	cmd, err := last.cmd, last.err
	if len(together) > 1 { // an answer among them has been counted as not taken
		cmd, err = "", newCutError(together)
	} else {
		for _, show := range last.shown {
			err = errors.Join(err, show(b.s))
		}
	}
	late := errors.Join(eventErr, b.s.lost())
	var unprinted error
	for _, st := range together {
		own := cmp.Or(st.err, err)
		if st == last {
			own = errors.Join(own, late)
		}
		unprinted = errors.Join(unprinted, b.answer(st, own))
	}
	err = errors.Join(err, late, unprinted)
	b.fail(cmd, err)
	return err
}

// An overloaded server answers a request with Throttled and may carry out those behind it.
// To send the request again changes its order among them. So it is sent again only if
// every line behind it that was carried out commutes with it. Lines behind it that failed
// may have failed because of that; they are sent again as well, by the same rule. From
// then on each line waits for the one before and is sent again until it is answered.

// single tells whether nothing is sent behind a step that is begun now.
func (w *window) single() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most == 1
}

// again runs a step once more that was throttled, or stands behind one that was, if it
// can keep its place. It waits for all behind it, which are put aside. The teller's.
func (w *window) again(st *step) {
	w.mu.Lock()
	w.most, w.allowed = 1, 1
	more := w.open - 1 - len(w.aside) // begun, and in the channel or about to be
	w.mu.Unlock()
	for range more {
		w.aside = append(w.aside, <-w.steps)
	}
	for _, next := range w.aside {
		<-next.ended
	}
	for _, next := range w.aside {
		if next.mayBeDone() && !next.trip.Commutes(st.trip) {
			st.err = fmt.Errorf("%w (zksh did not send the line again, because the later line %d may already have taken effect)", st.err, next.number)
			return
		}
	}
	for _, next := range w.aside {
		next.stale = !next.mayBeDone()
	}
	w.start(w.ctx, st, true)
	<-st.ended
}

// mayBeDone reports whether the request of a step that has ended may have been carried
// out.
func (st *step) mayBeDone() bool { return st.trip.Outcome.MayHaveHappened() }
