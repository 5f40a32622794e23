// Package zktree reads, compares, writes and deletes whole subtrees of znodes for the commands of
// zksh, with many requests in flight. Trees may have any size. The package holds in memory only the
// names of the children of the current znode's ancestors, and a limited amount of data that was
// read ahead.
//
// Walk yields every znode of a tree on a server, as the package dump does for a tree in a file. Compare
// compares two such trees. Plan turns the differences into edits, each of which carries the state
// that it requires. Apply makes edits, and Together makes them in one transaction. Delete and SetACL
// change a whole subtree, whatever its state is. After a lost connection, all of them continue on the
// next one. Start reading at Walk and at Apply.
//
// In this package, a folder is a znode with children. An unreadable znode is one that the session
// has no permission to read.
package zktree

import (
	"cmp"
	"context"
	"errors"
	"slices"

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

// Options are the options of a walk. Without any of them, a walk reads only the names of the children.
type Options struct {
	Stat bool // whether to read the Stats and the kinds
	Data bool // whether to read the data, together with the Stats
	ACL  bool // whether to read the ACLs, together with the Stats
	// Select reports whether to read the data or the ACL of a znode whose names and Stat are known, if
	// it is readable. If Select is nil, the walk reads the data and ACLs of all readable znodes.
	Select   func(z *dump.Znode, refusal error) bool
	Depth    int  // number of levels below the root to visit, or 0 for all
	Watch    bool // whether to set a child watch on each znode
	Shut     bool // whether to yield an unreadable root; if not, Walk fails
	Progress Progress
	Pause    func() bool // called before the walk waits for a reply; false ends the walk; may be nil
}

// Walk reads the root of a subtree, and returns the znodes of the subtree. They can be read once. Walk
// fails if the root does not exist, or if the root is unreadable and o.Shut is false.
//
// The sequence has the order and the errors of dump.Znodes. It skips znodes that other clients delete
// during the walk, except for the root. After the caller has left the loop, the walk sends no more
// requests. If the connection is lost, the walk asks again on the next connection, unless it sets
// watches.
func Walk(ctx context.Context, c zkconn.Client, root string, o Options) (dump.Znodes, error) {
	w, err := begin(ctx, c, root, o)
	if err != nil {
		return nil, err
	}
	return w.znodes, nil
}

// A walk is a linked list of the znodes that come next, in the order in which they are visited. Each
// of them is asked for as early as the limits on requests and memory allow.
type walk struct {
	ctx       context.Context
	c         zkconn.Client
	root      string
	o         Options
	p         *zkconn.Pipe
	multiRead bool
	losses    int // lost connections since the last reply

	first   *item      // next item to visit; nil at the end of the walk
	unasked []*item    // folded items whose children are to be requested, in the order of the visits
	noData  *item      // first item whose data was not requested, if the walk reads data
	sent    []*request // requests in flight, oldest first
	window  int        // maximum number of requests in flight of either kind: for data, and for the rest
	start   func(*request)
	failed  error // error that ends the walk after the znodes that are ready, or nil

	ahead     readAhead
	dataAhead int // estimated size of the data that is requested but not yet yielded, in bytes
	done      int // number of znodes visited so far
	total     int // number of znodes found so far
}

// An item is an element of the list: a znode or, if its state is folded, the children of a folder that
// have not been asked for.
type item struct {
	dump.Znode // for folded items, the path of the folder and the names of these children
	state      state
	err        error   // reason why the znode is unreadable, or nil if it is readable
	up         *folder // folder that contains the znode; nil for the root
	held       int     // memory for the answers, without the data, in bytes; an estimate before they arrive
	data       int     // estimated size of the data, in bytes
	next       *item
}

// A folder describes a znode with children.
type folder struct {
	depth        int // number of levels between the walk's root and the children
	paths, names int // total bytes of the paths, and of the children's names, from the root to this folder
}

// A state is the progress of an item.
type state int

const (
	folded  state = iota
	asked         // the names, the Stat or the ACL were requested
	known         // its data or its ACL is to be requested
	filling       // its data or its ACL was requested
	ready         // nothing else is requested
	gone          // the znode no longer exists
)

// Limits on requests in flight, and on data that is read ahead. The Stat of a znode contains the size
// of its data, so the sizes are known in advance.
const (
	listBatch    = 256       // paths in one multiRead
	singleBatch  = 512       // single requests that are sent together
	window       = 8         // requests, or groups of single requests, in flight
	singleWindow = 512       // single writes in flight
	batchBytes   = 256 << 10 // size of the paths in a request or of the data in a reply; the frame limit is 1 MiB
	maxDataAhead = 2 << 20   // total size of the data that is requested but not yet yielded
	asksEvery    = 64        // number of znodes after which the walk tries to send more requests
)

func begin(ctx context.Context, c zkconn.Client, root string, o Options) (*walk, error) {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return nil, err
	}
	w := newWalk(ctx, root, o)
	w.c = c
	err := w.connect()
	if err == nil {
		err = w.readRoot()
	}
	if err == nil && len(w.first.Children) > 0 {
		w.lookForMultiRead()
	}
	return w, err
}

func newWalk(ctx context.Context, root string, o Options) *walk {
	w := &walk{ctx: ctx, root: root, o: o, window: window, ahead: readAhead{limit: readAheadBytes}, total: 1}
	w.first = &item{Znode: dump.Znode{Path: root}, state: asked}
	w.noData = w.first
	w.start = w.transmit
	return w
}

func (w *walk) connect() (err error) {
	w.p, err = w.c.Pipe(w.ctx, w.root)
	return err
}

// lookForMultiRead finds out whether the server has multiRead, which cannot set watches. No request may
// be in flight.
func (w *walk) lookForMultiRead() { w.multiRead = !w.o.Watch && w.p.HasMultiRead(w.ctx) }

func (w *walk) readRoot() error {
	root := w.first
	w.send(w.firstRequest(0), root)
	for root.state == asked {
		if err := w.receive(); err != nil {
			return err
		}
	}
	if root.err != nil && (root.state == gone || !w.o.Shut) {
		return root.err
	}
	return nil
}

// znodes is the sequence that Walk returns.
func (w *walk) znodes(yield func(*dump.Znode, error) bool) {
	if err := w.run(yield); err != nil && !errors.Is(err, errStopped) {
		yield(nil, err)
	}
}

// errStopped is the internal error for a caller that has ended the walk early.
var errStopped = errors.New("the walk of the tree was stopped early")

func (w *walk) run(yield func(*dump.Znode, error) bool) error {
	for w.first != nil {
		i := w.first
		switch {
		case i.state == ready:
			w.take(i)
			if !yield(&i.Znode, i.err) {
				return errStopped
			}
		case i.state == gone && i.up == nil: // an empty tree would make a mirror delete its destination
			return i.err
		case i.state == gone:
			w.drop(i)
		case i.state == folded && w.firstRequest(i.up.depth) == askNothing:
			w.unfold(i)
		default:
			if err := w.wait(); err != nil {
				return err
			}
		}
		w.goOn()
	}
	return w.failed
}

// take removes the first item from the list, because its znode is visited.
func (w *walk) take(i *item) {
	w.drop(i)
	w.done++
	w.o.Progress.report(w.done, w.total)
}

// drop removes the first item from the list.
func (w *walk) drop(i *item) {
	if w.first = i.next; w.noData == i {
		w.noData = i.next
	}
	i.next, i.up = nil, nil // a caller that keeps the znode must not keep other items in memory
	w.ahead.buffered -= i.held
	w.dataAhead -= i.data
}

// wait waits for the reply to the oldest request. It also sends more requests. It returns the error of an
// earlier reply, after the znodes before it were visited.
func (w *walk) wait() error {
	if w.failed != nil {
		return w.failed
	}
	w.ask()
	switch {
	case len(w.sent) == 0:
		return errors.New("zktree: internal error: the walk has no pending requests")
	case !w.sent[0].reply.Ready() && w.o.Pause != nil && !w.o.Pause():
		return errStopped
	}
	if w.failed = w.receive(); w.failed == nil {
		w.ask()
	}
	return nil
}

// goOn handles replies that have arrived, and sends more requests, without waiting.
func (w *walk) goOn() {
	arrived := false
	for w.failed == nil && len(w.sent) > 0 && w.sent[0].reply.Ready() {
		w.failed = w.receive()
		arrived = true
	}
	if w.failed == nil && (arrived || w.done%asksEvery == 0) {
		w.ask()
	}
}

// receive waits for the reply to the oldest request. If the connection was lost, it sends all requests
// again on the next connection.
func (w *walk) receive() error {
	r := w.sent[0]
	err := r.wait(w.ctx)
	switch {
	case w.failed != nil:
		return w.failed
	case err == nil:
		w.sent[0] = nil // free the memory of the answers
		w.sent = w.sent[1:]
		w.losses = 0
		w.window = adjustWindow(w.window, window, r.reply.Slowed())
		w.ahead.adjust()
		if r.following != nil {
			w.send(nextKind[r.kind], r.following...)
		}
		return nil
	case w.o.Watch || !mayGoOn(w.ctx, err, w.losses):
		return interrupted(w.ctx, err)
	}
	w.losses++
	if err := w.connect(); err != nil {
		return interrupted(w.ctx, err)
	}
	w.lookForMultiRead()
	for _, r := range w.sent {
		w.start(r)
	}
	return nil
}

// ask sends requests for the znodes that come first, up to the limits.
func (w *walk) ask() {
	forData := 0
	for _, r := range w.sent {
		if r.kind.isLate() {
			forData++
		}
	}
	for others := len(w.sent) - forData; others < w.window && w.requestNext(); others++ {
	}
	if w.o.Data || w.o.ACL {
		for ; forData < w.window && w.requestData(); forData++ {
		}
	}
}

// batch returns the maximum number of znodes in one request. If the server is overloaded, requests are
// smaller.
func (w *walk) batch(k kind) int {
	n := singleBatch
	if k == askNames || k == askData {
		n = listBatch
	}
	return max(1, n*w.window/window)
}

// requestNext sends a request for the unasked children that come first. It reports whether it has sent
// one.
func (w *walk) requestNext() bool {
	must := len(w.sent) == 0
	if len(w.unasked) == 0 || !must && !w.ahead.hasRoom(w.unasked[0].up.depth) {
		return false
	}
	k := w.firstRequest(w.unasked[0].up.depth)
	var items []*item
	for size := 0; len(w.unasked) > 0 && len(items) < w.batch(k) && size < batchBytes; must = false {
		i := w.unasked[0]
		if w.firstRequest(i.up.depth) != k || !must && !w.ahead.allows(i.up.depth) {
			break
		}
		if w.unasked[0] = w.unfold(i); w.unasked[0] == nil {
			w.unasked = w.unasked[1:]
		}
		i.state = asked
		i.held = w.ahead.noteAsked(i.up.depth)
		items = append(items, i)
		size += len(i.Path)
	}
	if items == nil {
		return false
	}
	w.send(k, items...)
	return true
}

// unfold turns a folded item into the item of its first child. It returns the new item of the other
// children, or nil if there are none.
func (w *walk) unfold(i *item) (rest *item) {
	all := i.Children
	if len(all) > 1 {
		rest = &item{Znode: dump.Znode{Path: i.Path, Children: all[1:]}, up: i.up, next: i.next}
		i.next = rest
	}
	i.Path, i.Children, i.state = zkconn.Join(i.Path, all[0]), nil, ready
	return rest
}

// requestData sends a request for the data or the ACLs of znodes that come first. It stops before a znode
// that is not known yet, because data is held only in the order of the visits. It reports whether it
// has sent a request.
func (w *walk) requestData() bool {
	var items []*item
	size := 0
	for ; w.noData != nil && w.noData.state > asked && len(items) < w.batch(askData); w.noData = w.noData.next {
		i := w.noData
		if i.state != known {
			continue
		}
		bytes := entryOverhead
		if i.Stat != nil && w.o.Data {
			bytes += int(i.Stat.DataLength)
		}
		full := w.dataAhead > 0 && w.dataAhead+bytes > maxDataAhead
		if full || len(items) > 0 && size+bytes > batchBytes {
			break
		}
		w.dataAhead += bytes
		size += bytes
		i.data, i.state = bytes, filling
		items = append(items, i)
	}
	if items == nil {
		return false
	}
	w.send(w.secondRequest(), items...)
	return true
}

// depth returns the number of levels below the root.
func (i *item) depth() int {
	if i.up == nil {
		return 0
	}
	return i.up.depth
}

// learned decides how an item goes on after the names, the Stat or the ACL have arrived, or err is the
// reason why not.
func (w *walk) learned(i *item, err error) {
	size := entryOverhead
	for _, name := range i.Children {
		size += nameOverhead + len(name)
	}
	w.ahead.noteAnswered(i.depth(), i.held, size)
	if i.held = size; i.up == nil { // the limit on memory does not count the root, but its children may be as large
		w.ahead.buffered -= size
		i.held = 0
	}
	w.refuse(i, err)
	switch {
	case i.state == gone:
		w.total--
	case w.wantsMore(i):
		w.advance(i, known)
	default:
		w.advance(i, ready)
	}
}

// advance sets the state of an item, unless the znode is gone or the walk has failed.
func (w *walk) advance(i *item, to state) {
	if i.state != gone && w.failed == nil {
		i.state = to
	}
}

// refuse stores the reason why a znode could not be read, if there is one.
func (w *walk) refuse(i *item, err error) {
	switch {
	case err == nil:
	case errors.Is(err, zkconn.NoNode):
		i.state, i.err = gone, err
	case errors.Is(err, zkconn.NoAuth):
		i.err = cmp.Or(i.err, err)
	default:
		w.failed = cmp.Or(w.failed, err)
	}
}

// wantsMore reports whether to request the data or the ACL of an item.
func (w *walk) wantsMore(i *item) bool {
	switch {
	case !w.o.Data && !w.o.ACL, i.err != nil && w.o.Data:
		return false
	case w.o.Select == nil:
		return i.err == nil && w.o.Data
	}
	return w.o.Select(&i.Znode, i.err)
}

// wantsNames reports whether to request the names of the children of znodes at the given depth below
// the root.
func (w *walk) wantsNames(depth int) bool { return w.o.Depth == 0 || depth < w.o.Depth }

// addChildren stores the names of an item's children, and adds them to the list.
func (w *walk) addChildren(i *item, list []string) {
	if len(list) == 0 {
		return
	}
	// Names are sorted as in zkCli, which compares UTF-16 code units. Valid names contain only
	// characters of the Basic Multilingual Plane, for which comparing bytes has the same result.
	slices.Sort(list)
	i.Children = list
	w.total += len(list)
	f := &folder{depth: 1}
	if i.up != nil {
		*f = folder{depth: i.up.depth + 1, paths: i.up.paths, names: i.up.names}
	}
	f.paths += len(i.Path)
	for _, name := range list {
		f.names += nameOverhead + len(name)
	}
	if f.tooDeep(i.Path) {
		w.failed = &tooDeepError{w.root, f.depth - 1, len(i.Path)}
	}
	i.next = &item{Znode: dump.Znode{Path: i.Path, Children: list}, up: f, next: i.next}
	if w.firstRequest(f.depth) != askNothing {
		at, _ := slices.BinarySearchFunc(w.unasked, i.next, visitOrder)
		w.unasked = slices.Insert(w.unasked, at, i.next)
	}
}

// visitOrder compares two folded items in the order in which their children are visited. The remaining
// children of a folder come after the children of its descendants.
func visitOrder(a, b *item) int {
	switch {
	case dump.Within(a.Path, b.Path):
		return -1
	case dump.Within(b.Path, a.Path):
		return 1
	}
	return dump.InOrder(a.Path, b.Path)
}

// interrupted returns the cause of ctx if err means that a request was not sent because ctx had
// ended. Otherwise, it returns err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.As(err, new(*zkconn.UnsentError)) {
		return context.Cause(ctx)
	}
	return err
}
