package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// A printer prints the lines of a window in order. It runs in its own goroutine, or, for a group,
// in the goroutine of the batch.
type printer struct {
	w         *window
	deferred  []*pendingLine // lines taken from the window while an earlier line was sent again
	unflushed []*pendingLine // lines printed into the buffer of the shell, which has not been flushed
	muted     bool           // print nothing more: output failed, or a fenced line or the lack of a server ended the script
}

// run prints lines until the window is closed.
func (r *printer) run() {
	for p := r.take(); p != nil; p = r.take() {
		r.printFrom(p)
		for len(r.deferred) > 0 {
			r.printFrom(r.next())
		}
	}
	r.flush()
}

// take waits for the next line. It returns nil when the window is closed.
func (r *printer) take() *pendingLine {
	select {
	case p := <-r.w.pending:
		return p
	default:
		r.flush()
		return <-r.w.pending
	}
}

// next returns the next line that has started, or nil if there is none.
func (r *printer) next() (p *pendingLine) {
	if len(r.deferred) > 0 {
		p, r.deferred = r.deferred[0], r.deferred[1:]
		return p
	}
	select {
	case p = <-r.w.pending:
	default:
	}
	return p
}

// await waits until the command of a line has ended. It first flushes the output of earlier lines.
func (r *printer) await(p *pendingLine) {
	if !isClosed(p.ended) {
		r.flush()
		<-p.ended
	}
}

// flush writes the printed output. Answers that are ready at the same time share one write.
func (r *printer) flush() {
	if err := r.w.b.shell.Flush(); err != nil {
		r.w.b.fail("", err)
		r.endIf(err)
	}
	for _, p := range r.unflushed {
		r.w.release(p)
	}
	r.unflushed = nil
}

// printFrom prints a line. If its answer was cut off, printFrom prints one message for it and the
// lines after it that were cut off too.
func (r *printer) printFrom(p *pendingLine) {
	r.await(p)
	if (p.mustRerun || p.throttled()) && !p.trip.Alone && !r.w.isStopped() {
		r.flush()
		r.runAgain(p)
	}
	together := []*pendingLine{p}
	var next *pendingLine
	for p.cutOff() && next == nil {
		if next = r.next(); next == nil || !next.handedOver() {
			break
		}
		// When the batch is interrupted, a line may still be answered although an earlier one is
		// not. Such a line counts as cut off.
		if r.await(next); next.cutOff() || r.w.ctx.Err() != nil {
			together, next = append(together, next), nil
		}
	}
	r.show(together)
	r.unflushed = append(r.unflushed, together...)
	if next != nil {
		r.printFrom(next)
	}
}

// show prints lines, and stops the batch if their failure ends it. The output may appear only after
// flush.
func (r *printer) show(together []*pendingLine) { r.endIf(r.print(together)) }

// endIf stops the batch if the error of a line ends it.
func (r *printer) endIf(err error) {
	r.muted = r.muted || errors.As(err, new(*exit.WriteError))
	if r.w.b.ends(err) && !r.w.isStopped() {
		r.muted = r.muted || errors.As(err, new(*zkconn.FencedError)) || isEndedError(err)
		r.w.stop()
	}
}

// print prints the output of one line, or one message for several lines that were cut off. It first
// prints the events that the server sent before the answer. It returns the error of the lines.
func (r *printer) print(together []*pendingLine) error {
	if r.w.ctx.Err() != nil { // omit lines that were not sent
		sent := slices.DeleteFunc(slices.Clone(together), func(p *pendingLine) bool { return !p.sent() })
		if len(sent) == 0 && r.w.isStopped() {
			return nil
		}
		together = slices.Concat(sent, together)[:max(1, len(sent))]
	}
	b, last := r.w.b, together[len(together)-1]
	b.line, b.upTo = together[0].number, last.number
	defer func() { b.upTo = 0 }()
	if r.w.isStopped() && errors.As(last.err, new(*zkconn.FencedError)) { // all later lines fail with the same error
		r.muted = true
	}
	if r.muted {
		return nil
	}
	b.shell.Buffer()
	eventErr := b.shell.ShowEvents(func() []zkconn.Event {
		if errors.Is(last.err, zkconn.SessionExpired) { // there is no answer, so print all events
			return b.env.Session.Events()
		}
		return b.env.Session.EventsBefore(last.trip)
	})
	cmd, err := last.cmd, last.err
	if len(together) > 1 { // ignore answers among them
		cmd, err = "", newCutError(together)
	} else {
		err = errors.Join(err, last.out.Play(b.shell))
	}
	late := errors.Join(eventErr, b.shell.Lost())
	var unprinted error
	for _, p := range together {
		own := cmp.Or(p.err, err)
		if p == last {
			own = errors.Join(own, late)
		}
		unprinted = errors.Join(unprinted, b.conclude(p, own))
	}
	err = errors.Join(err, late, unprinted)
	b.fail(cmd, err)
	return err
}

// runAgain runs a line again that was throttled, or that failed after one that was throttled, if
// that does not change the result of later lines. It first waits for all later lines in flight and
// defers them.
//
// An overloaded server answers a request with Throttled, but may execute later requests. Sending
// the request again therefore moves it after those. runAgain does so only if the line commutes
// with every later line that may have taken effect. Otherwise the line fails. Later lines that
// failed may have failed because of the throttled line, so they run again too, by the same rule.
// From then on, each line waits for the answer to the previous one.
func (r *printer) runAgain(p *pendingLine) {
	for range r.w.startOneByOne() - len(r.deferred) { // the others are in the channel, or about to be
		r.deferred = append(r.deferred, <-r.w.pending)
	}
	for _, next := range r.deferred {
		<-next.ended
	}
	for _, next := range r.deferred {
		if next.mayBeDone() && !next.trip.Commutes(p.trip) {
			p.err = fmt.Errorf("%w (zksh did not send the line again, because the later line %d may already have taken effect)", p.err, next.number)
			return
		}
	}
	for _, next := range r.deferred {
		next.mustRerun = !next.mayBeDone()
	}
	_, ended := r.w.start(r.w.ctx, p, true)
	<-ended
}
