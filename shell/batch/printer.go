package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// A printer prints the output of the lines of a window, in the order of the lines. It runs in its
// own goroutine.
type printer struct {
	w         *window
	deferred  []*pendingLine // lines that were taken from the window while an earlier line ran again
	unflushed []*pendingLine // lines whose output is still in the buffer of the shell
	// whether to print nothing more, because output failed, or because a lost lock or an
	// unreachable server ended the script
	muted bool
}

// run prints the output of lines until the window is closed.
func (r *printer) run() {
	for p := r.take(); p != nil; p = r.take() {
		r.printFrom(p)
		for len(r.deferred) > 0 {
			r.printFrom(r.next())
		}
	}
	r.flush()
}

// take waits for the next line and returns it, or nil when the window is closed.
func (r *printer) take() *pendingLine {
	select {
	case p := <-r.w.pending:
		return p
	default:
		r.flush()
		return <-r.w.pending
	}
}

// next returns the next line that has started, or nil if there is none, without waiting.
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

// flush writes the buffered output, and then frees the places of the printed lines in the window.
// Answers that are ready at the same time share one write.
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

// printFrom prints the output of a line. If the answer to the line was cut off, printFrom prints a
// single message for this line and the cut-off lines that follow it.
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
		// When the batch is interrupted, a later line may receive an answer although an earlier
		// line has not. Such a later line counts as cut off, too.
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

// show prints the output of lines. If the lines failed and the batch must not continue after that
// failure, show stops the batch. The output may remain in the buffer until flush.
func (r *printer) show(lines []*pendingLine) { r.endIf(r.print(lines)) }

// endIf stops the batch if err is an error after which the batch must not continue.
func (r *printer) endIf(err error) {
	r.muted = r.muted || errors.As(err, new(*exit.WriteError))
	if r.w.b.ends(err) && !r.w.isStopped() {
		r.muted = r.muted || errors.As(err, new(*zkconn.FencedError)) || isEndedError(err)
		r.w.stop()
	}
}

// print prints the output of one line, or a single message for several lines that were cut off.
// Before that, it prints the events that the server sent before the answer. It returns the error
// of the lines.
func (r *printer) print(lines []*pendingLine) error {
	if r.w.ctx.Err() != nil { // skip lines that were not sent
		sent := slices.DeleteFunc(slices.Clone(lines), func(p *pendingLine) bool { return !p.sent() })
		if len(sent) == 0 && r.w.isStopped() {
			return nil
		}
		lines = slices.Concat(sent, lines)[:max(1, len(sent))]
	}
	b, last := r.w.b, lines[len(lines)-1]
	b.line, b.upTo = lines[0].number, last.number
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
	if len(lines) > 1 { // the message replaces any answers to these lines
		cmd, err = "", newCutError(lines)
	} else {
		err = errors.Join(err, last.out.Play(b.shell))
	}
	lost := b.shell.Lost()
	var unprinted error
	for _, p := range lines {
		own := cmp.Or(p.err, err)
		if p == last {
			own = errors.Join(own, eventErr, lost)
		}
		unprinted = errors.Join(unprinted, b.conclude(p, own))
	}
	err = errors.Join(err, eventErr, unprinted)
	b.fail(cmd, err)
	b.fail("", lost)
	return errors.Join(err, lost)
}

// runAgain runs a line again after the server has throttled it, or after it has failed because of
// an earlier throttled line. First, it waits for all later lines in flight and defers their output.
//
// An overloaded server answers a request with Throttled, but may execute later requests. If the
// request is sent again, it is therefore executed after those later requests. runAgain sends it
// again only if the line commutes with every later line that may have taken effect. Otherwise the
// line fails. Later lines that failed may have failed because of the throttled line, so they run
// again, too, under the same condition. From then on, each line waits for the answer to the
// previous one.
func (r *printer) runAgain(p *pendingLine) {
	for range r.w.startOneByOne() - len(r.deferred) { // the other lines are in the channel, or soon will be
		r.deferred = append(r.deferred, <-r.w.pending)
	}
	for _, next := range r.deferred {
		<-next.ended
	}
	for _, next := range r.deferred {
		if next.mayBeDone() && !next.trip.Commutes(p.trip) {
			p.err = fmt.Errorf("%w (zksh did not send the line again, because the later line %d may already have "+
				"taken effect)", p.err, next.number)
			return
		}
	}
	for _, next := range r.deferred {
		next.mustRerun = !next.mayBeDone()
	}
	_, ended := r.w.start(r.w.ctx, p, true)
	<-ended
}
