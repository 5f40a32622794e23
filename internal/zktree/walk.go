// Package zktree reads, compares, writes and deletes whole subtrees of znodes for the commands
// of zksh, with many requests in flight. Trees may have any size: the package holds in memory
// only the names of the children of the current znode's ancestors, and a limited amount of
// answers that were read ahead.
//
// A Walk visits every znode of a Source: a server, or a file. Nodes adds data and ACLs to a
// walk, and Compare compares two such trees. Plan turns the differences into edits, which a
// Writer applies. Delete and SetACL change a whole subtree. Start reading at Begin and
// Walk.Steps.
//
// In this package, a folder is a znode with children. An unreadable znode is a znode that we
// have no permission to read.
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

// A Progress is called with the number of znodes that are done and the number of all znodes
// found so far, which grows during the walk. It is called often and must return quickly.
type Progress func(done, total int)

func (p Progress) report(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Options are the options of a Walk.
type Options struct {
	Stat     bool // each Step has the Stat
	Access   bool // each Step has the Stat, the ACL and the kind
	Depth    int  // number of levels below the root to visit; 0 means all
	Shut     bool // report an unreadable root in its Step; if false, Begin fails
	Progress Progress
}

// A Step is one event of a walk: usually a znode that the walk enters or leaves.
type Step struct {
	Kind  StepKind
	Depth int // levels below the root
	Name  string
	Last  bool     // the znode is the last of its siblings
	Names []string // sorted names of the children; empty at the deepest level that the walk visits
	Stat  *zk.Stat // nil if not requested, or if we have no permission to see it
	ACL   []zk.ACL
	Type  dump.Kind     // kind of the znode; set together with the ACL
	TTL   time.Duration // time to live, for the type dump.TTL
	Err   error         // why the znode is unreadable; nil if it is readable

	parent, folder *folder    // folder that contains the znode, and the znode's own folder if it has children
	info           *znodeInfo // for Enter: answer about the znode, or nil if it contained no information
	rootPath       string     // path of the walk's root; set in its Step only
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
	Pause                 // the walk is about to wait for an answer; the Step has no znode
)

// A Walk visits the znodes of a subtree. A znode comes before its descendants, and siblings are
// sorted by name. A Walk holds in memory the folders that it has not left and whose children are
// known: the ancestors of the current znode, and some folders that come next.
type Walk struct {
	ctx      context.Context
	src      Source
	o        Options
	root     string
	rootInfo *znodeInfo
	yield    func(*Step, error) bool
	step     Step        // the current step; its memory is reused
	requests []request   // requests in flight, oldest first
	window   int         // maximum number of requests in flight
	entries  []Entry     // entries of the last answer; their memory is reused
	unasked  folderQueue // folders with children that are not requested yet
	ahead    readAhead
	done     int // znodes visited
	total    int // znodes found
}

// Begin reads the root of a subtree and returns a Walk of that subtree. Begin fails if the root
// does not exist, or if the root is unreadable and o.Shut is not set.
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
		w.rootInfo.cost = 0 // readAhead does not count it
	}
	return w, err
}

// Steps yields the steps of the walk. It can be used only once. Znodes that other clients delete
// meanwhile are skipped. The Step of an unreadable znode has Err set. Any other failure ends the
// walk with an error. A Step is valid only until the next one. After the caller has left the
// loop, the walk sends no more requests.
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
	index   int // index in parent.names
	path    string
	depth   int // levels below the walk's root
	names   []string
	stat    *zk.Stat
	asked   int          // number of children that have been requested
	answers []*znodeInfo // answers about children, from index next on; nil if without information
	next    int          // index of the next child to visit
	bottom  bool         // the children are visited by name only, without a request

	paths, namesCost int // bytes of all paths and children's names, from the root to this folder
}

func (f *folder) child(name string) string { return zkconn.Join(f.path, name) }

// A znodeInfo is the answer about a znode. A nodeReader adds the znode's data.
type znodeInfo struct {
	dump.Znode
	folder *folder // nil if the znode has no children
	err    error   // why the znode is unreadable; nil if it is readable
	cost   int     // memory of the answer, in bytes
}

// vanished takes the place of the znodeInfo of a child that no longer exists.
var vanished = &znodeInfo{}

// A request asks for several children at once.
type request struct {
	parts  []part
	paths  []string
	want   Want
	reply  Answer
	budget int // estimated size of its answer, in bytes
}

// A part is a run of consecutive children of one folder.
type part struct {
	f     *folder
	count int
}

// errStopped reports that the caller left the loop over a walk early.
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

// visit enters the next child of a folder, and returns the folder in which the walk continues.
func (w *Walk) visit(f *folder) (*folder, error) {
	var k *znodeInfo
	if !f.bottom {
		k = f.answers[0]
		f.answers[0] = nil // so that the folder does not keep the znode's data in memory
		f.answers = f.answers[1:]
	}
	name := f.names[f.next]
	f.next++
	if k == vanished {
		return f, nil
	}
	return w.enter(f, name, f.next == len(f.names), k)
}

// enter yields a znode and returns the folder in which the walk continues: the znode itself if
// it has children, or else dir.
func (w *Walk) enter(dir *folder, name string, last bool, k *znodeInfo) (*folder, error) {
	s := Step{Kind: Enter, Name: name, Last: last, parent: dir}
	if dir != nil {
		s.Depth = dir.depth + 1
	} else {
		s.rootPath = w.root
	}
	next := dir
	if k != nil {
		s.info, s.Stat, s.ACL, s.Type, s.TTL, s.Err = k, k.Stat, k.ACL, k.Kind, k.TTL, k.err
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
	if next != dir { // deeper levels may use more memory
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

// want returns the fields that the walk requests for the znodes at a depth below the root.
func (w *Walk) want(depth int) Want {
	return Want{Names: w.o.Depth == 0 || depth < w.o.Depth, Stat: w.o.Stat, ACL: w.o.Access}
}

// ask fills the window with requests for the znodes that the walk visits next.
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

// gather returns a request for children in the order in which the walk visits them: as many as
// fit into a request and as readAhead allows, but at least one if no request is in flight.
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

// batch returns the number of paths in a request. An overloaded server gets fewer and smaller
// requests.
func (w *Walk) batch(want Want) int { return max(1, w.src.Batch(want)*w.window/window) }

// receive waits for the answer to the oldest request, stores it, and sends more requests.
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
	defer clear(w.entries) // so that unused entries keep no names in memory
	w.requests = w.requests[1:]
	for _, next := range w.requests { // Ready sends the second request of an answer that needs one
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

// learn converts the entry for a folder's child, or for the root, into a znodeInfo. It returns
// vanished if the znode no longer exists, and nil if the entry contains no information.
func (w *Walk) learn(up *folder, index int, path string, e Entry) (*znodeInfo, error) {
	if errors.Is(e.Err, zkconn.NoNode) {
		w.total--
		return vanished, nil
	}
	if len(e.Names) == 0 && e.Stat == nil && e.Err == nil && !w.o.Access {
		return nil, nil
	}
	k := &znodeInfo{Znode: dump.Znode{Path: path, Kind: e.Kind, TTL: e.TTL, ACL: e.ACL, Stat: e.Stat}, err: e.Err, cost: entryOverhead}
	if len(e.Names) == 0 {
		return k, nil
	}
	// zkCli sorts names by UTF-16 code units, as Java does. Valid names have no characters
	// beyond the Basic Multilingual Plane, so sorting them by bytes has the same result.
	slices.Sort(e.Names)
	f := &folder{parent: up, index: index, path: path, names: e.Names, stat: e.Stat}
	if up != nil {
		f.depth = up.depth + 1
		f.paths, f.namesCost = up.paths, up.namesCost
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
