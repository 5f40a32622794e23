// Package zktree reads, compares, writes and deletes whole subtrees of znodes for the commands of
// zksh, with many requests in flight. Trees may have any size. The package holds in memory only the
// names of the children of the current znode's ancestors, and a limited amount of data that was
// read ahead.
//
// A Walk visits every znode of a tree on a server. Nodes adds data and ACLs to a walk, and Compare
// compares two such trees. Plan turns the differences into edits, each of which carries the state
// that it requires. Apply makes edits, and Together makes them in one transaction. Delete and SetACL
// change a whole subtree, whatever its state is. After a lost connection, all of them continue on the
// next one. Start reading at Begin and Walk.Steps, and at Apply.
//
// In this package, a folder is a znode with children. An unreadable znode is one that the session
// has no permission to read.
package zktree

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A Progress is called with the number of znodes done, and the number of znodes found so far. The
// latter grows during the walk. Progress is called often and must return quickly.
type Progress func(done, total int)

func (p Progress) report(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Options are the options of a Walk.
type Options struct {
	Stat     bool // whether each Step contains the znode's Stat
	Access   bool // whether to read the ACL and the kind of each znode as well, for Nodes
	Depth    int  // number of levels below the root to visit, or 0 for all
	Shut     bool // whether an unreadable root is reported in its Step; if not, Begin fails
	Progress Progress
}

// A Step is one event of a walk: the walk enters or leaves a znode, or pauses.
type Step struct {
	Kind  StepKind
	Depth int // number of levels below the root
	Name  string
	Last  bool     // whether the znode is the last of its siblings
	Names []string // sorted names of the children; empty at the deepest level that the walk visits
	Stat  *zk.Stat // nil if the Stat was not requested, or if the session may not see it
	Err   error    // reason why the znode is unreadable, or nil if it is readable

	parent, folder *folder    // folder that contains the znode, and the znode's own folder if it has children
	info           *znodeInfo // answer about the znode, for Enter; nil if the answer was empty
	rootPath       string     // path of the walk's root; set only in the Step of the root
}

// Path returns the path of the znode.
func (s *Step) Path() string {
	switch {
	case s.folder != nil:
		return s.folder.path
	case s.info != nil:
		return s.info.Path
	case s.rootPath != "":
		return s.rootPath
	}
	return s.parent.child(s.Name)
}

// A StepKind is the kind of a Step.
type StepKind int

// The kinds of steps.
const (
	Enter StepKind = iota // the walk enters a znode; its descendants follow
	Leave                 // the walk leaves a znode with children, after all its descendants
	Pause                 // the walk is about to wait for an answer; this Step has no znode
)

// A Walk visits the znodes of a subtree. A znode comes before its descendants, and siblings are
// sorted by name. In memory, a Walk holds the ancestors of the current znode, and some folders that
// it will visit soon.
type Walk struct {
	ctx      context.Context
	src      Source
	o        Options
	root     string
	rootInfo *znodeInfo
	yield    func(*Step, error) bool
	step     Step        // current step; the next step reuses its memory
	requests []request   // requests in flight, oldest first
	window   int         // maximum number of requests in flight
	entries  []Entry     // entries of the last answer; the next answer reuses their memory
	unasked  folderQueue // folders with children that have not been requested yet
	ahead    readAhead
	done     int // number of znodes visited so far
	total    int // number of znodes found so far
}

// Begin reads the root of a subtree and returns a Walk of the subtree. Begin fails if the root does
// not exist, or if the root is unreadable and o.Shut is false.
func Begin(ctx context.Context, src Source, root string, o Options) (*Walk, error) {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return nil, err
	}
	w := &Walk{ctx: ctx, src: src, o: o, root: root, window: window, ahead: readAhead{limit: readAheadBytes}, total: 1}
	entries, err := src.Ask([]string{root}, w.want(0)).Wait(ctx, nil)
	if err == nil {
		err = entries[0].Err
	}
	if err != nil && !(o.Shut && errors.Is(err, zkconn.NoAuth)) {
		return nil, interrupted(w.ctx, err)
	}
	if w.rootInfo, err = w.learn(nil, 0, root, entries[0]); w.rootInfo != nil {
		w.rootInfo.cost = 0 // readAhead does not count the memory for the root
	}
	return w, err
}

// Steps yields the steps of the walk. It can be used only once. It skips znodes that other clients
// delete during the walk. For an unreadable znode, the Step has Err set; any other error ends the
// walk.
//
// A Step is valid only until the next one. After the caller has left the loop, the walk sends no
// more requests.
func (w *Walk) Steps() iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		w.yield = yield
		if err := w.run(); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// A folder is a znode whose children are known.
type folder struct {
	parent  *folder
	index   int // index of the folder's name in parent.names
	path    string
	depth   int // number of levels below the walk's root
	names   []string
	stat    *zk.Stat
	asked   int          // number of children that have been requested
	answers []*znodeInfo // answers about the children, starting with index next; a nil element is an empty answer
	next    int          // index of the next child to visit
	bottom  bool         // whether the walk visits the children only by name, without requests

	paths, namesCost int // total bytes of the paths, and of the children's names, from the root to this folder
}

func (f *folder) child(name string) string { return zkconn.Join(f.path, name) }

// A znodeInfo is the answer about one znode. A nodeReader adds the znode's data to it.
type znodeInfo struct {
	dump.Znode
	folder *folder // nil if the znode has no children
	err    error   // reason why the znode is unreadable, or nil if it is readable
	cost   int     // memory that the answer takes, in bytes
}

// vanished is the znodeInfo of every child that no longer exists.
var vanished = &znodeInfo{}

// A request asks for several children at once.
type request struct {
	parts  []part
	paths  []string
	want   Want
	reply  Answer
	budget int // estimated size of the answer, in bytes
}

// A part is a range of consecutive children of one folder.
type part struct {
	f     *folder
	count int
}

// errStopped is the internal error for a caller that left the loop over a walk early.
var errStopped = errors.New("the walk of the tree was stopped early")

func (w *Walk) run() error {
	cur, err := w.enter(nil, "", true, w.rootInfo)
	for err == nil && cur != nil {
		switch {
		case cur.next == len(cur.names):
			err = w.emit(Step{Kind: Leave, Depth: cur.depth, Names: cur.names, Stat: cur.stat, folder: cur})
			cur = cur.parent
		case !cur.bottom && len(cur.answers) == 0:
			err = w.receive()
		default:
			cur, err = w.visit(cur)
		}
	}
	return err
}

// visit enters the next child of the folder f. It returns the folder in which the walk continues.
func (w *Walk) visit(f *folder) (*folder, error) {
	var k *znodeInfo
	if !f.bottom {
		k = f.answers[0]
		f.answers[0] = nil // free the memory of the answer
		f.answers = f.answers[1:]
	}
	name := f.names[f.next]
	f.next++
	if k == vanished {
		return f, nil
	}
	return w.enter(f, name, f.next == len(f.names), k)
}

// enter yields a Step for the znode with the given name in the folder dir. It returns the folder in
// which the walk continues: that of the znode itself if it has children, and dir otherwise.
func (w *Walk) enter(dir *folder, name string, last bool, k *znodeInfo) (*folder, error) {
	s := Step{Kind: Enter, Name: name, Last: last, parent: dir}
	if dir != nil {
		s.Depth = dir.depth + 1
	} else {
		s.rootPath = w.root
	}
	next := dir
	if k != nil {
		s.info, s.Stat, s.Err = k, k.Stat, k.err
		w.ahead.noteConsumed(k.cost)
		if k.folder != nil {
			s.Names, next = k.folder.names, k.folder
		}
	}
	w.done++
	w.o.Progress.report(w.done, w.total)
	if err := w.emit(s); err != nil {
		return nil, err
	}
	if next != dir { // at a deeper level, readAhead may allow more requests
		w.ask()
	}
	return next, nil
}

func (w *Walk) emit(s Step) error {
	w.step = s
	if !w.yield(&w.step, nil) {
		return errStopped
	}
	return nil
}

// want returns the fields to request for znodes at the given depth below the root.
func (w *Walk) want(depth int) Want {
	return Want{Names: w.o.Depth == 0 || depth < w.o.Depth, Stat: w.o.Stat, ACL: w.o.Access}
}

// ask sends requests for the znodes that the walk visits next, until the window is full.
func (w *Walk) ask() {
	for len(w.requests) < w.window {
		r := w.gather()
		if r.paths == nil {
			return
		}
		r.reply = w.src.Ask(r.paths, r.want)
		w.requests = append(w.requests, r)
	}
}

// gather returns a request for children in the order in which the walk will visit them. It contains
// as many children as readAhead and the limit for one request allow. If no request is in flight, it
// contains at least one.
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
		if n <= 0 && r.paths == nil && len(w.requests) == 0 {
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
		r.budget += w.ahead.noteAsked(f.depth+1, count)
		r.parts = append(r.parts, part{f, count})
		if f.asked += count; f.asked == len(f.names) {
			w.unasked.drop()
		}
	}
	return r
}

// batch returns the maximum number of paths in one request. If the server is overloaded, requests
// are smaller.
func (w *Walk) batch(want Want) int { return max(1, w.src.Batch(want)*w.window/window) }

// receive waits for the answer to the oldest request and stores it. It also sends more requests.
func (w *Walk) receive() error {
	if w.ask(); len(w.requests) == 0 {
		return errors.New("zktree: internal error: the walk has no pending requests")
	}
	r := w.requests[0]
	if !r.reply.Ready() {
		if err := w.emit(Step{Kind: Pause}); err != nil {
			return err
		}
	}
	entries, err := r.reply.Wait(w.ctx, w.entries)
	if err != nil {
		return interrupted(w.ctx, err)
	}
	w.entries = entries
	defer clear(w.entries) // free the memory of the names in unused entries
	w.requests = w.requests[1:]
	for _, next := range w.requests { // Ready sends the second request of an answer, if there is one
		next.reply.Ready()
	}
	w.window = adjustWindow(w.window, window, r.reply.Slowed())
	w.ahead.noteAnswered(r.budget)
	for _, p := range r.parts {
		cost := 0
		for i, e := range entries[:p.count] {
			at := p.f.next + len(p.f.answers)
			if refusal := e.Err; refusal != nil && !errors.Is(refusal, zkconn.NoNode) && !errors.Is(refusal, zkconn.NoAuth) {
				return refusal
			}
			k, err := w.learn(p.f, at, r.paths[i], e)
			if err != nil {
				return err
			}
			p.f.answers = append(p.f.answers, k)
			if k != nil {
				cost += k.cost
			}
		}
		entries, r.paths = entries[p.count:], r.paths[p.count:]
		w.ahead.noteCost(p.f.depth+1, p.count, cost)
	}
	w.ask()
	return nil
}

// learn converts the entry e to a znodeInfo. The entry is for the child of parent with the given
// index, or for the root if parent is nil. learn returns vanished if the znode no longer exists, or
// nil if the entry contains no information.
func (w *Walk) learn(parent *folder, index int, path string, e Entry) (*znodeInfo, error) {
	if errors.Is(e.Err, zkconn.NoNode) {
		w.total--
		return vanished, nil
	}
	if len(e.Names) == 0 && e.Stat == nil && e.Err == nil && !w.o.Access {
		return nil, nil
	}
	k := &znodeInfo{Znode: dump.Znode{Path: path, Kind: e.Kind, ACL: e.ACL, Stat: e.Stat}, err: e.Err, cost: entryOverhead}
	if len(e.Names) == 0 {
		return k, nil
	}
	// Names are sorted as in zkCli, which compares UTF-16 code units. Valid names contain only
	// characters of the Basic Multilingual Plane, for which comparing bytes has the same result.
	slices.Sort(e.Names)
	f := &folder{parent: parent, index: index, path: path, names: e.Names, stat: e.Stat}
	if parent != nil {
		f.depth = parent.depth + 1
		f.paths, f.namesCost = parent.paths, parent.namesCost
	}
	for _, name := range e.Names {
		k.cost += nameOverhead + len(name)
	}
	f.paths += len(path)
	if f.namesCost += k.cost; tooDeep(f) {
		return nil, &tooDeepError{w.root, f.depth, len(path)}
	}
	w.total += len(e.Names)
	k.folder = f
	if below := w.want(f.depth + 1); below == (Want{}) {
		f.bottom = true
	} else {
		w.unasked.add(f)
	}
	return k, nil
}
