package zktree

import "container/heap"

// ahead bounds what a walk knows of znodes that it has not come to. What an answer
// costs is only known once it is there, so it is taken to be as dear as those about
// znodes of the same depth, or at first of the depth above, and few are asked for then.
type ahead struct {
	most   int // bytes
	kept   int // bytes of answers that the walk has not come to
	flying int // bytes expected of those under way
	levels []level
}

// level is what is known of the answers about znodes of one depth.
type level struct {
	asked, answered int
	cost            int // bytes of one, about
}

const (
	aheadBytes = 6 << 20 // of answers the walk has not come to
	firstAsked = 16      // of a depth that is new; twice as many each time
	nameCost   = 24      // bytes of a name besides its own
	entryCost  = 256     // bytes of an answer besides its names
)

func (a *ahead) level(depth int) *level {
	for len(a.levels) <= depth {
		l := level{}
		if above := len(a.levels) - 1; above >= 0 {
			l.cost = a.levels[above].cost
		}
		a.levels = append(a.levels, l)
	}
	return &a.levels[depth]
}

// allowed is how many more znodes of a depth may be asked for. Each depth leaves some
// of the memory to those below it.
func (a *ahead) allowed(depth int) int {
	l := a.level(depth)
	n := max(firstAsked, l.answered) - (l.asked - l.answered)
	if l.cost > 0 {
		room := a.most/(depth+1)*depth - a.kept - a.flying
		n = min(n, room/l.cost)
	}
	return max(n, 0)
}

// asked takes note that so many of a depth have been asked for, and tells what their
// answers are expected to cost.
func (a *ahead) asked(depth, count int) (bytes int) {
	l := a.level(depth)
	l.asked += count
	bytes = count * l.cost
	a.flying += bytes
	return bytes
}

// answered takes note that an answer is there from which so much was expected.
func (a *ahead) answered(bytes int) { a.flying -= bytes }

// learnt takes note of what answers cost. Those to come may be as dear at once, and
// are taken for cheaper by and by.
func (a *ahead) learnt(depth, count, bytes int) {
	l := a.level(depth)
	if l.answered == 0 {
		l.cost = 0
	}
	l.answered += count
	l.cost = max(bytes/count, (3*l.cost+bytes/count)/4)
	a.kept += bytes
}

// left takes note that the walk has come to what an answer is about.
func (a *ahead) left(bytes int) { a.kept -= bytes }

// unasked are the folders with children that have not been asked for, in the order in
// which a walk comes to the first of those. As a folder's are asked for in order, none
// of another folder ever comes between what is left of them.
type unasked struct{ folders []*folder }

func (u *unasked) first() *folder {
	if len(u.folders) == 0 {
		return nil
	}
	return u.folders[0]
}

func (u *unasked) add(f *folder) { heap.Push(u, f) }
func (u *unasked) drop()         { heap.Pop(u) }

var _ heap.Interface = (*unasked)(nil)

func (u *unasked) Len() int { return len(u.folders) }

func (u *unasked) Less(i, j int) bool { return before(u.folders[i], u.folders[j]) }

func (u *unasked) Swap(i, j int) { u.folders[i], u.folders[j] = u.folders[j], u.folders[i] }

func (u *unasked) Push(f any) { u.folders = append(u.folders, f.(*folder)) }

func (u *unasked) Pop() any {
	last := len(u.folders) - 1
	f := u.folders[last]
	u.folders[last] = nil
	u.folders = u.folders[:last]
	return f
}

// before reports whether a walk comes to what is unasked of f before what is unasked of
// g: they are compared by the places of the children that lead there from the folder
// above both.
func before(f, g *folder) bool {
	at, bt := f.asked, g.asked
	for f.depth > g.depth {
		at, f = f.at, f.up
	}
	for g.depth > f.depth {
		bt, g = g.at, g.up
	}
	for f != g {
		at, bt, f, g = f.at, g.at, f.up, g.up
	}
	return at < bt
}
