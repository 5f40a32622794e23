package batch

import "github.com/zksh/zksh/internal/zkconn"

// A group speeds up a batch that stops at its first error (-e). It collects lines that consist of
// a single write and have already been read, and sends them to the server as one transaction. The
// output is the same as if each line had waited for the previous one. A nil group has no lines and
// accepts none.
type group struct {
	w     *window
	txn   *zkconn.Transaction // nil if there are no lines
	lines []*pendingLine      // the lines in the transaction; the last one may have failed before it joined
}

// maxGroup is the maximum number of lines in a group. The total size of the lines is limited by
// maxRead.
const maxGroup = 100

// accepts reports whether a line can join the group. It accepts no line while the session has a
// watch. The server sends all events of a transaction before its answer, so they could not be
// printed between the output of the lines.
func (g *group) accepts(p *pendingLine) bool {
	return g != nil && canJoin(p) && !g.w.b.env.Session.Watching()
}

// begin adds a line to the group, and reports whether the batch continues.
func (g *group) begin(p *pendingLine) bool {
	if g.txn == nil {
		g.txn = g.w.b.env.Session.Begin()
	}
	await(g.w.start(g.txn.Context(g.w.ctx), p, false))
	g.lines = append(g.lines, p)
	if len(g.lines) == maxGroup || !isClosed(p.trip.Queued) {
		return g.flush()
	}
	return true
}

func (g *group) busy() bool { return g != nil && len(g.lines) > 0 }

// flush commits the transaction, prints the output of its lines, and reports whether the batch
// continues.
func (g *group) flush() bool {
	if !g.busy() {
		return true
	}
	g.txn.CommitEach(g.w.ctx)
	lines := g.lines
	g.txn, g.lines = nil, nil
	for _, p := range lines {
		<-p.ended
	}
	for len(lines) > 0 && !g.w.isStopped() {
		n := 1
		for lines[0].cutOff() && n < len(lines) && lines[n].cutOff() {
			n++
		}
		g.w.printer.show(lines[:n])
		lines = lines[n:]
	}
	g.w.printer.flush()
	return !g.w.isStopped()
}
