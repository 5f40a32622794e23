package zktree

import "container/heap"

// readAhead bounds the memory for answers about znodes that a walk has not visited yet. The
// size of an answer is unknown before it arrives. It is estimated from earlier answers about
// znodes of the same depth. At a new depth, the estimate of the depth above is used, and only
// a few znodes are requested at first.
type readAhead struct {
	limit    int // maximum memory, in bytes
	buffered int // bytes of the answers that have arrived and whose znodes are not visited yet
	expected int // estimated bytes of the answers in flight
	byDepth  []depthStats
}

// depthStats counts the requests and answers about znodes of one depth.
type depthStats struct {
	asked, answered int
	cost            int // estimated size of one answer, in bytes
}

const (
	readAheadBytes = 6 << 20 // default limit of readAhead
	initialAsk     = 16      // first number of znodes requested at a new depth; it doubles each time
	nameOverhead   = 24      // memory of a name besides its characters, in bytes
	entryOverhead  = 256     // memory of an answer besides its names, in bytes
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

// allowed returns how many more znodes of a depth may be requested. Each depth leaves part
// of the memory to the depths below it.
func (a *readAhead) allowed(depth int) int {
	l := a.statsAt(depth)
	n := max(initialAsk, l.answered) - (l.asked - l.answered)
	if l.cost > 0 {
		room := a.limit/(depth+1)*depth - a.buffered - a.expected
		n = min(n, room/l.cost)
	}
	return max(n, 0)
}

// noteAsked records requests for count znodes of a depth. It returns the estimated size of
// their answers.
func (a *readAhead) noteAsked(depth, count int) (bytes int) {
	l := a.statsAt(depth)
	l.asked += count
	bytes = count * l.cost
	a.expected += bytes
	return bytes
}

// noteAnswered records the arrival of an answer whose size was estimated as bytes.
func (a *readAhead) noteAnswered(bytes int) { a.expected -= bytes }

// noteCost records the total size of count answers. The estimate of the depth rises to their
// average at once, and falls gradually.
func (a *readAhead) noteCost(depth, count, bytes int) {
	l := a.statsAt(depth)
	if l.answered == 0 {
		l.cost = 0
	}
	l.answered += count
	l.cost = max(bytes/count, (3*l.cost+bytes/count)/4)
	a.buffered += bytes
}

// noteConsumed records that the walk has visited the znode of an answer of that size.
func (a *readAhead) noteConsumed(bytes int) { a.buffered -= bytes }

// A folderQueue is a heap of the folders with children that have not been requested, in the
// order in which a walk visits the first of these children. A folder's children are requested
// in order, so the folder keeps its place in the heap until all of them are requested.
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

// before reports whether a walk visits the unrequested children of f before those of g. It
// compares the indexes of the children that lead to f and to g in their common ancestor.
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
