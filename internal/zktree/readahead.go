package zktree

// readAhead limits the memory for answers about znodes that a walk has not visited yet.
//
// The size of an answer is unknown before the answer arrives, so readAhead estimates it from
// earlier answers about znodes at the same depth. At a new depth, readAhead starts with the
// estimate for the depth above, and allows only a few requests at first.
type readAhead struct {
	limit    int // maximum memory, in bytes
	buffered int // size of the arrived answers about znodes not visited yet, in bytes
	expected int // estimated total size of the answers in flight, in bytes
	byDepth  []depthStats
	changed  []int // depths with answers since the last call of adjust
}

// depthStats counts the requests for znodes of one depth, and the answers.
type depthStats struct {
	asked, answered int
	cost            int // estimated size of one answer, in bytes
	recent, bytes   int // number and total size of the answers since the last call of adjust
}

const (
	readAheadBytes = 2 << 20 // default limit of readAhead
	initialAsk     = 16      // number of znodes in the first request at a new depth; it doubles with each further request
	nameOverhead   = 24      // memory overhead of a name, in bytes
	entryOverhead  = 256     // memory overhead of a znode without its names and data, in bytes
)

func (a *readAhead) at(depth int) *depthStats {
	for len(a.byDepth) <= depth {
		d := depthStats{}
		if above := len(a.byDepth) - 1; above >= 0 {
			d.cost = a.byDepth[above].cost
		}
		a.byDepth = append(a.byDepth, d)
	}
	return &a.byDepth[depth]
}

// room returns the memory that is left for answers about znodes at a depth, in bytes. It reserves part
// of the memory for greater depths.
func (a *readAhead) room(depth int) int { return a.limit/(depth+1)*depth - a.buffered - a.expected }

// hasRoom reports whether there is memory for enough answers to make a request worthwhile.
func (a *readAhead) hasRoom(depth int) bool { return a.room(depth) >= a.limit/16 }

// allows reports whether one more znode at a depth may be requested.
func (a *readAhead) allows(depth int) bool {
	d := a.at(depth)
	return d.asked-d.answered < max(initialAsk, d.answered) && (d.cost == 0 || d.cost <= a.room(depth))
}

// noteAsked records that a znode of a depth was requested. It returns the estimated size of the answer.
func (a *readAhead) noteAsked(depth int) (bytes int) {
	d := a.at(depth)
	d.asked++
	a.expected += d.cost
	return d.cost
}

// noteAnswered records that the answer about a znode of a depth has arrived, with the size in bytes.
// expected is its estimate.
func (a *readAhead) noteAnswered(depth, expected, bytes int) {
	a.expected -= expected
	a.buffered += bytes
	d := a.at(depth)
	if d.answered++; d.recent == 0 {
		a.changed = append(a.changed, depth)
	}
	d.recent++
	d.bytes += bytes
}

// adjust adjusts the estimates to the latest answers. If their average size at a depth exceeds the
// estimate, the estimate rises to the average at once. Otherwise, it falls gradually.
func (a *readAhead) adjust() {
	for _, depth := range a.changed {
		d := &a.byDepth[depth]
		if d.answered == d.recent { // the first answers
			d.cost = 0
		}
		average := d.bytes / d.recent
		d.cost = max(average, (3*d.cost+average)/4)
		d.recent, d.bytes = 0, 0
	}
	a.changed = a.changed[:0]
}
