package zktree

import "container/heap"

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
}

// depthStats counts the requests for znodes of one depth, and the answers.
type depthStats struct {
	asked, answered int
	cost            int // estimated size of one answer, in bytes
}

const (
	readAheadBytes = 6 << 20 // default limit of readAhead
	initialAsk     = 16      // number of znodes in the first request at a new depth; it doubles with each further request
	nameOverhead   = 24      // memory overhead of a name, in bytes
	entryOverhead  = 256     // memory overhead of an answer without its names, in bytes
)

func (a *readAhead) statsAt(depth int) *depthStats {
	for len(a.byDepth) <= depth {
		l := depthStats{}
		if above := len(a.byDepth) - 1; above >= 0 {
			l.cost = a.byDepth[above].cost
		}
		a.byDepth = append(a.byDepth, l)
	}
	return &a.byDepth[depth]
}

// allowed returns how many more znodes at a depth may be requested. It reserves part of the memory
// for greater depths.
func (a *readAhead) allowed(depth int) int {
	l := a.statsAt(depth)
	n := max(initialAsk, l.answered) - (l.asked - l.answered)
	if l.cost > 0 {
		room := a.limit/(depth+1)*depth - a.buffered - a.expected
		n = min(n, room/l.cost)
	}
	return max(n, 0)
}

// noteAsked records that count znodes of a depth were requested. It returns the estimated total
// size of the answers.
func (a *readAhead) noteAsked(depth, count int) (bytes int) {
	l := a.statsAt(depth)
	l.asked += count
	bytes = count * l.cost
	a.expected += bytes
	return bytes
}

// noteAnswered records that an answer has arrived. bytes is the size that was estimated for the
// answer.
func (a *readAhead) noteAnswered(bytes int) { a.expected -= bytes }

// noteCost updates the estimate for a depth. count answers about znodes of that depth have arrived,
// with a total size of bytes. If their average size exceeds the estimate, the estimate rises to the
// average at once. Otherwise, it falls gradually.
func (a *readAhead) noteCost(depth, count, bytes int) {
	l := a.statsAt(depth)
	if l.answered == 0 {
		l.cost = 0
	}
	l.answered += count
	l.cost = max(bytes/count, (3*l.cost+bytes/count)/4)
	a.buffered += bytes
}

// noteConsumed records that the walk has visited a znode whose answer has a size of bytes.
func (a *readAhead) noteConsumed(bytes int) { a.buffered -= bytes }

// A folderQueue is a heap of the folders with children that have not been requested yet. They are
// sorted by the order in which a walk will visit the first of these children. The children of a
// folder are requested in order, so the folder's place in the heap does not change until all of
// them have been requested.
type folderQueue struct{ folders []*folder }

func (u *folderQueue) first() *folder {
	if len(u.folders) == 0 {
		return nil
	}
	return u.folders[0]
}

func (u *folderQueue) add(f *folder) { heap.Push(u, f) }
func (u *folderQueue) drop()         { heap.Pop(u) }

var _ heap.Interface = (*folderQueue)(nil)

func (u *folderQueue) Len() int { return len(u.folders) }

func (u *folderQueue) Less(i, j int) bool { return before(u.folders[i], u.folders[j]) }

func (u *folderQueue) Swap(i, j int) { u.folders[i], u.folders[j] = u.folders[j], u.folders[i] }

func (u *folderQueue) Push(f any) { u.folders = append(u.folders, f.(*folder)) }

func (u *folderQueue) Pop() any {
	last := len(u.folders) - 1
	f := u.folders[last]
	u.folders[last] = nil
	u.folders = u.folders[:last]
	return f
}

// before reports whether a walk visits the unrequested children of f before those of g. It compares
// the positions of f and g below their lowest common ancestor.
func before(f, g *folder) bool {
	at, bt := f.asked, g.asked
	for f.depth > g.depth {
		at, f = f.index, f.parent
	}
	for g.depth > f.depth {
		bt, g = g.index, g.parent
	}
	for f != g {
		at, bt, f, g = f.index, g.index, f.parent, g.parent
	}
	return at < bt
}
