// Package zktree goes over whole subtrees with many requests in flight, on trees of
// any size: what it keeps are the names of the folders on the way, and a bounded
// number of answers to what comes next.
package zktree

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Progress is told how many of how many nodes are done; total grows while a tree
// is walked. It is called often and must be quick.
type Progress func(done, total int)

func (p Progress) tell(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Options of Walk.
type Options struct {
	Stat     bool // each Step has the Stat
	Access   bool // and the ACL and the kind
	Depth    int  // how far below the root the walk goes; 0: to the ground
	Shut     bool // that the root may not be read is told in its Step, and no error
	Progress Progress
}

// Step is a znode that a walk has come to.
type Step struct {
	Kind  StepKind
	Depth int // below the root
	Name  string
	Last  bool     // of its siblings
	Names []string // of its children, sorted; at the depth where a walk ends it has none
	Stat  *zk.Stat // nil where it may not be known, too
	ACL   []zk.ACL
	Type  dump.Kind     // only with the ACL
	TTL   time.Duration // of that Type
	Err   error         // why it may not be read

	dir, own *folder
	known    *known // of an Enter, if that says more
	path     string // of the root
}

// Path is where the znode is.
func (s *Step) Path() string {
	switch {
	case s.own != nil:
		return s.own.path
	case s.known != nil:
		return s.known.Path
	case s.path != "":
		return s.path
	}
	return s.dir.child(s.Name)
}

// StepKind says what a Step is about.
type StepKind int

// The kinds of steps.
const (
	Enter StepKind = iota // a znode; what is below it follows
	Leave                 // a znode with children, once all that is below it has been entered and left
	Pause                 // no znode: the walk is about to wait for an answer
)

// Walk is the way over a subtree: each znode before what is below it, siblings by
// name. Its memory are the folders whose lists are known and that have not been left:
// those on the way to where it is, and some that come next.
type Walk struct {
	ctx     context.Context
	src     Source
	o       Options
	root    string
	start   *known // the root
	yield   func(*Step, error) bool
	step    Step // is used again for each step
	air     []request
	window  int     // how many requests there may be
	entries []Entry // of the answer before; used again for each
	unasked unasked
	ahead   ahead
	done    int
	total   int
}

// Begin reads the root of a subtree. Its absence is an error, and so is that it may not
// be read unless that is wished otherwise.
func Begin(ctx context.Context, src Source, root string, o Options) (*Walk, error) {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return nil, err
	}
	w := &Walk{ctx: ctx, src: src, o: o, root: root, window: window, ahead: ahead{most: aheadBytes}, total: 1}
	entries, err := src.Ask([]string{root}, w.want(0)).Wait(ctx, nil)
	if err == nil {
		err = entries[0].Err
	}
	if err != nil && !(o.Shut && errors.Is(err, zkconn.NoAuth)) {
		return nil, interrupted(w.ctx, err)
	}
	if w.start, err = w.learn(nil, 0, root, entries[0]); w.start != nil {
		w.start.cost = 0 // it was not asked for ahead
	}
	return w, err
}

// Steps goes over the subtree, once. Znodes that vanish meanwhile are left out; that
// one may not be read is told in its Step, and any other failure is an error, which
// comes last. Nothing is asked for any more once the loop is left. A Step is only good
// until the next.
func (w *Walk) Steps() iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		w.yield = yield
		if err := w.all(); err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// folder is a znode whose children are known.
type folder struct {
	up     *folder
	at     int // its place among its siblings
	path   string
	depth  int
	names  []string
	stat   *zk.Stat
	asked  int      // so many of the children have been asked for
	known  []*known // answers about children the walk has not come to; nil is one without children
	next   int      // the child that the walk comes to next
	ground bool     // its children are not asked for

	paths, namesCost int // bytes of its path and of its children's names, and of those above it
}

func (f *folder) child(name string) string { return zkconn.Join(f.path, name) }

// known is what there is to say of a child, and its data once that has been asked for.
type known struct {
	dump.Znode
	own  *folder // if it has children
	err  error   // why it may not be read
	cost int
}

// vanished is known of a child that is gone.
var vanished = &known{}

// request is some children that were asked for together.
type request struct {
	parts  []part
	paths  []string
	want   Want
	reply  Answer
	budget int // what its answer may cost
}

// part is a run of children of one folder.
type part struct {
	f     *folder
	count int
}

// errLeft says that nobody wants the rest of the walk.
var errLeft = errors.New("the walk of the tree was stopped early")

func (w *Walk) all() error {
	cur, err := w.enter(nil, "", true, w.start)
	for err == nil && cur != nil {
		switch {
		case cur.next == len(cur.names):
			err = w.say(Step{Kind: Leave, Depth: cur.depth, Names: cur.names, Stat: cur.stat, own: cur})
			cur = cur.up
		case !cur.ground && len(cur.known) == 0:
			err = w.receive()
		default:
			cur, err = w.visit(cur)
		}
	}
	return err
}

// visit comes to the next child of a folder, and returns where to go on.
func (w *Walk) visit(f *folder) (*folder, error) {
	var k *known
	if !f.ground {
		k = f.known[0]
		f.known[0] = nil // what it gets of data is not kept for as long as the folder is
		f.known = f.known[1:]
	}
	name := f.names[f.next]
	f.next++
	if k == vanished {
		return f, nil
	}
	return w.enter(f, name, f.next == len(f.names), k)
}

// enter tells of a znode and goes on with its children, if it has any.
func (w *Walk) enter(dir *folder, name string, last bool, k *known) (*folder, error) {
	s := Step{Kind: Enter, Name: name, Last: last, dir: dir}
	if dir != nil {
		s.Depth = dir.depth + 1
	} else {
		s.path = w.root
	}
	next := dir
	if k != nil {
		s.known, s.Stat, s.ACL, s.Type, s.TTL, s.Err = k, k.Stat, k.ACL, k.Kind, k.TTL, k.err
		w.ahead.left(k.cost)
		if k.own != nil {
			s.Names, next = k.own.names, k.own
		}
	}
	w.done++
	w.o.Progress.tell(w.done, w.total)
	if err := w.say(s); err != nil {
		return nil, err
	}
	if next != dir { // there may be room for more now
		w.ask()
	}
	return next, nil
}

func (w *Walk) say(s Step) error {
	w.step = s
	if !w.yield(&w.step, nil) {
		return errLeft
	}
	return nil
}

// want is what is asked of the znodes that deep below the root.
func (w *Walk) want(depth int) Want {
	return Want{Names: w.o.Depth == 0 || depth < w.o.Depth, Stat: w.o.Stat, ACL: w.o.Access}
}

// ask fills the window with what the walk comes to next.
func (w *Walk) ask() {
	for len(w.air) < w.window {
		r := w.gather()
		if r.paths == nil {
			return
		}
		r.reply = w.src.Ask(r.paths, r.want)
		w.air = append(w.air, r)
	}
}

// gather takes children that were not asked for yet, in the order in which the walk
// comes to them, as many as fit into a request and are allowed. One always is if
// nothing is under way: the walk waits for it.
func (w *Walk) gather() (r request) {
	size := 0
	for f := w.unasked.first(); f != nil; f = w.unasked.first() {
		want := w.want(f.depth + 1)
		if r.paths == nil {
			r.want = want
		} else if want != r.want {
			break
		}
		n := min(len(f.names)-f.asked, w.batch(want)-len(r.paths), w.ahead.allowed(f.depth+1))
		if n <= 0 && r.paths == nil && len(w.air) == 0 {
			n = 1
		}
		count := 0
		r.paths = slices.Grow(r.paths, max(n, 0))
		for ; count < n && size < batchBytes; count++ {
			path := f.child(f.names[f.asked+count])
			r.paths = append(r.paths, path)
			size += len(path)
		}
		if count == 0 {
			break
		}
		r.budget += w.ahead.asked(f.depth+1, count)
		r.parts = append(r.parts, part{f, count})
		if f.asked += count; f.asked == len(f.names) {
			w.unasked.drop()
		}
	}
	return r
}

// batch is how many paths go into a request. A server that has too much to do gets fewer
// requests, and smaller ones.
func (w *Walk) batch(want Want) int { return max(1, w.src.Batch(want)*w.window/window) }

// receive takes the answer to the oldest request, and asks for more.
func (w *Walk) receive() error {
	if w.ask(); len(w.air) == 0 {
		return errors.New("zktree: internal error: the walk has no pending requests")
	}
	r := w.air[0]
	if !r.reply.Ready() {
		if err := w.say(Step{Kind: Pause}); err != nil {
			return err
		}
	}
	entries, err := r.reply.Wait(w.ctx, w.entries)
	if err != nil {
		return interrupted(w.ctx, err)
	}
	w.entries = entries
	defer clear(w.entries) // or the names of a folder that was left stay behind a shorter answer
	w.air = w.air[1:]
	for _, next := range w.air { // which may have something to ask for itself
		next.reply.Ready()
	}
	w.window = pace(w.window, window, r.reply.Slowed())
	w.ahead.answered(r.budget)
	for _, p := range r.parts {
		cost := 0
		for i, e := range entries[:p.count] {
			at := p.f.next + len(p.f.known)
			if refusal := e.Err; refusal != nil && !errors.Is(refusal, zkconn.NoNode) && !errors.Is(refusal, zkconn.NoAuth) {
				return refusal
			}
			k, err := w.learn(p.f, at, r.paths[i], e)
			if err != nil {
				return err
			}
			p.f.known = append(p.f.known, k)
			if k != nil {
				cost += k.cost
			}
		}
		entries, r.paths = entries[p.count:], r.paths[p.count:]
		w.ahead.learnt(p.f.depth+1, p.count, cost)
	}
	w.ask()
	return nil
}

// learn takes note of an answer about a folder's child, or the root.
func (w *Walk) learn(up *folder, at int, path string, e Entry) (*known, error) {
	if errors.Is(e.Err, zkconn.NoNode) {
		w.total--
		return vanished, nil
	}
	if len(e.Names) == 0 && e.Stat == nil && e.Err == nil && !w.o.Access {
		return nil, nil
	}
	k := &known{Znode: dump.Znode{Path: path, Kind: e.Kind, TTL: e.TTL, ACL: e.ACL, Stat: e.Stat}, err: e.Err, cost: entryCost}
	if len(e.Names) == 0 {
		return k, nil
	}
	// As Java sorts strings, by UTF-16 units: valid names have no characters beyond
	// the basic plane, where that is the order of the bytes.
	slices.Sort(e.Names)
	f := &folder{up: up, at: at, path: path, names: e.Names, stat: e.Stat}
	if up != nil {
		f.depth = up.depth + 1
		f.paths, f.namesCost = up.paths, up.namesCost
	}
	for _, name := range e.Names {
		k.cost += nameCost + len(name)
	}
	f.paths += len(path)
	if f.namesCost += k.cost; tooDeep(f) {
		return nil, &tooDeepError{w.root, f.depth, len(path)}
	}
	w.total += len(e.Names)
	k.own = f
	if below := w.want(f.depth + 1); below == (Want{}) {
		f.ground = true
	} else {
		w.unasked.add(f)
	}
	return k, nil
}
