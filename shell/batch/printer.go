package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// printer prints the lines of a window in their order, in a goroutine of its own. For a group it
// runs in the goroutine of the batch.
type printer struct {
	w         *window
	deferred  []*pendingLine // taken from the window while a line before them runs once more
	unflushed []*pendingLine // printed into the buffer of the shell, which is not flushed yet
	muted     bool           // print nothing more: output failed, or the script ended at a fenced line or for want of a server
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

// take waits for the next line. It returns nil when there will be none.
func (r *printer) take() *pendingLine {
	select {
	case p := <-r.w.pending:
		return p
	default:
		r.flush()
		return <-r.w.pending
	}
}

// next returns the next line if one has been started.
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

// await waits for the end of a line's command. The lines before it do not wait for that.
func (r *printer) await(p *pendingLine) {
	if !isClosed(p.ended) {
		r.flush()
		<-p.ended
	}
}

// flush writes what was printed: answers that are ready at the same time go out in one write.
func (r *printer) flush() {
	if err := r.w.b.shell.Flush(); err != nil {
		r.w.b.fail("", err)
		r.endIf(err)
	}
	for _, p := range r.unflushed {
		r.w.leave(p)
	}
	r.unflushed = nil
}

// printFrom prints a line, together with all that were cut off with it, if it was.
func (r *printer) printFrom(p *pendingLine) {
	r.await(p)
	if (p.stale || p.throttled()) && !p.trip.Alone && !r.w.isStopped() {
		r.flush()
		r.runAgain(p)
	}
	together := []*pendingLine{p}
	var next *pendingLine
	for p.cutOff() && next == nil {
		if next = r.next(); next == nil || !next.begun() {
			break
		}
		// When the batch is interrupted, an answer may still be taken that comes after one that
		// is not: the line counts with those before it.
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

// show prints lines, and ends the batch if their failure does. What they print may appear only
// after flush.
func (r *printer) show(together []*pendingLine) { r.endIf(r.print(together)) }

// endIf ends the batch if an error does.
func (r *printer) endIf(err error) {
	r.muted = r.muted || errors.As(err, new(*exit.WriteError))
	if r.w.b.over(err) && !r.w.isStopped() {
		r.muted = r.muted || errors.As(err, new(*zkconn.FencedError)) || ends(err)
		r.w.stop()
	}
}

// print prints the output of one line, after the events that came before its answer on the wire,
// or what is known of several lines that were cut off.
func (r *printer) print(together []*pendingLine) error {
	if r.w.ctx.Err() != nil { // lines that were not sent are as if they had not been read
		sent := slices.DeleteFunc(slices.Clone(together), func(p *pendingLine) bool { return !p.sent() })
		if len(sent) == 0 && r.w.isStopped() {
			return nil
		}
		together = slices.Concat(sent, together)[:max(1, len(sent))]
	}
	b, last := r.w.b, together[len(together)-1]
	b.line, b.upTo = together[0].number, last.number
	defer func() { b.upTo = 0 }()
	if r.w.isStopped() && errors.As(last.err, new(*zkconn.FencedError)) { // as all lines after it have
		r.muted = true
	}
	if r.muted {
		return nil
	}
	b.shell.Buffer()
	eventErr := b.shell.ShowEvents(func() []zkconn.Event {
		if errors.Is(last.err, zkconn.SessionExpired) { // no answer: the error says what is gone with the session
			return b.env.Session.Events()
		}
		return b.env.Session.EventsBefore(last.trip)
	})
	cmd, err := last.cmd, last.err
	if len(together) > 1 { // an answer among them counts as not taken
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

// runAgain runs a line once more that was throttled, or that is after one that was, if it can
// keep its place. It waits for all lines after it, which are deferred.
//
// An overloaded server answers a request with Throttled and may carry out those after it. To
// send the request again changes its order among them. So it is sent again only if every line
// after it that was carried out commutes with it. Lines after it that failed may have failed
// because of that; they are sent again as well, by the same rule. From then on each line waits
// for the one before, and is sent again until it is answered.
func (r *printer) runAgain(p *pendingLine) {
	for range r.w.startOneByOne() - len(r.deferred) { // in the channel, or about to be
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
		next.stale = !next.mayBeDone()
	}
	_, ended := r.w.start(r.w.ctx, p, true)
	<-ended
}
