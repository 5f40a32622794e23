package batch

import "github.com/zksh/zksh/internal/zkconn"

// group makes a batch that stops at its first error (-e) fast: lines that are a single write
// each, and have already been read, go to the server as one transaction. They print the same
// as if each had waited for the one before. A nil group has no lines.
type group struct {
	w     *window
	txn   *zkconn.Transaction // nil without lines
	lines []*pendingLine      // that have joined it, and maybe a last one that failed before it could
}

// maxGroup is the maximum number of lines in a group. maxRead bounds their length.
const maxGroup = 100

// accepts reports whether a line can join others. Events of one transaction all come before
// its answer, so with a watch left, each line goes alone.
func (g *group) accepts(p *pendingLine) bool {
	return g != nil && joins(p) && !g.w.b.env.Session.Watching()
}

// begin makes a line join those before it, and reports whether the batch continues.
func (g *group) begin(p *pendingLine) bool {
	if g.txn == nil {
		g.txn = g.w.b.env.Session.Begin()
	}
	await(g.w.start(g.txn.Context(g.w.ctx), p, false))
	g.lines = append(g.lines, p)
	if len(g.lines) == maxGroup || !isClosed(p.trip.Sent) {
		return g.flush()
	}
	return true
}

func (g *group) busy() bool { return g != nil && len(g.lines) > 0 }

// flush carries out and prints the lines that have joined, and reports whether the batch
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
