package shell

import (
	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// exact is how a batch that stops at its first error (-e) is fast all the same: lines
// that are a single write each, and have been read already, go as one multi. What they
// answer is as if each had waited for the one before. A nil one has no lines.
type exact struct {
	w     *window
	txn   *zkconn.Transaction // nil without steps
	steps []*step             // that have joined it, and maybe a last one that has failed before it could
}

// maxTogether is how many lines go together at most. How long they may be is bounded by
// maxRead.
const maxTogether = 100

// takes tells whether a line can go together with others. Events of one multi all come
// before its answer: so with a watch left each line goes alone.
func (e *exact) takes(st *step) bool {
	return e != nil && st.line.Has(commands.Joins) && !e.w.b.s.cfg.Session.Watching()
}

// begin has a line join those before it. It is false if the batch does not go on.
func (e *exact) begin(st *step) bool {
	if e.txn == nil {
		e.txn = e.w.b.s.cfg.Session.Begin()
	}
	sent, ended := e.w.start(e.txn.Context(e.w.ctx), st, false)
	select {
	case <-sent:
	case <-ended:
	}
	e.steps = append(e.steps, st)
	if len(e.steps) == maxTogether || !st.waits() {
		return e.flush()
	}
	return true
}

// waits tells of a step that has begun whether its request has been handed over.
func (st *step) waits() bool {
	select {
	case <-st.trip.Sent:
		return true
	default:
		return false
	}
}

func (e *exact) busy() bool { return e != nil && len(e.steps) > 0 }

// flush carries out what has joined and tells of it. It is false if the batch does not
// go on.
func (e *exact) flush() bool {
	if !e.busy() {
		return true
	}
	e.txn.CommitEach(e.w.ctx)
	steps := e.steps
	e.txn, e.steps = nil, nil
	for _, st := range steps {
		<-st.ended
	}
	for len(steps) > 0 && !e.w.isOver() {
		n := 1
		for steps[0].cutOff() && n < len(steps) && steps[n].cutOff() {
			n++
		}
		e.w.show(steps[:n])
		steps = steps[n:]
	}
	e.w.pour()
	return !e.w.isOver()
}
