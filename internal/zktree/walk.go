// Package zktree lists, deletes and changes whole subtrees with many requests in
// flight, on trees of any size that fits in memory.
package zktree

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
)

// Node is one znode of a listed tree. Children are sorted by name.
type Node struct {
	Path     string
	Children []*Node
	Hidden   bool // they may not be read, and what is below them is not known
}

// Bounds of what is in flight. A batch is one multiRead.
const (
	listBatch    = 256       // paths in one multiRead
	listWindow   = 8         // multiReads in flight
	singleWindow = 512       // single requests in flight
	batchBytes   = 256 << 10 // of paths in one multi, well below a server's frame limit of 1 MiB
)

// Progress is told how many of how many nodes are done; total grows while a tree
// is listed. It is called often and must be quick.
type Progress func(done, total int)

func (p Progress) tell(done, total int) {
	if p != nil {
		p(done, total)
	}
}

// Options of List.
type Options struct {
	Watch    bool // leave a child watch on every node
	Partial  bool // what is below a node that may not be read is left out
	Progress Progress
}

// List reads a subtree breadth first. Nodes that vanish meanwhile are left out;
// the root missing is an error, as is a node that may not be read, unless the
// Options let it pass.
func List(ctx context.Context, c zkconn.Client, root string, o Options) (*Node, int, error) {
	if err := zkconn.ValidatePath(root, false); err != nil {
		return nil, 0, err
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return nil, 0, err
	}
	w := &walker{ctx: ctx, p: p, o: o, root: &Node{Path: root}, total: 1}
	w.queue = []*Node{w.root}
	// The first answer decides whether the rest is worth asking in batches.
	names, err := p.Children(root, o.Watch).Wait(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := w.found(w.next(1)[0], zkconn.Listing{Names: names}); err != nil {
		return nil, 0, err
	}
	switch {
	case len(w.queue) == 0:
	case !o.Watch && len(w.queue) > 1 && p.HasMultiRead(ctx):
		err = w.batches()
	default:
		err = w.singles()
	}
	return w.root, w.total, err
}

type walker struct {
	ctx   context.Context
	p     *zkconn.Pipe
	o     Options
	root  *Node
	queue []*Node // to be asked for
	done  int
	total int
}

// found files the children of one node.
func (w *walker) found(n *Node, l zkconn.Listing) error {
	w.done++
	if l.Err != nil {
		if errors.Is(l.Err, zkconn.NoNode) && n != w.root {
			n.Path = "" // vanished; swept out by the caller's order
			w.total--
			return nil
		}
		if errors.Is(l.Err, zkconn.NoAuth) && w.o.Partial {
			n.Hidden = true
			return nil
		}
		return l.Err
	}
	if len(l.Names) > 0 {
		// As Java sorts strings, by UTF-16 units: valid names have no characters beyond
		// the basic plane, where that is the order of the bytes.
		slices.Sort(l.Names)
		prefix := zkconn.Join(n.Path, "")
		nodes := make([]Node, len(l.Names))
		n.Children = make([]*Node, len(l.Names))
		for i, name := range l.Names {
			nodes[i].Path = prefix + name
			n.Children[i] = &nodes[i]
		}
		w.queue = append(w.queue, n.Children...)
		w.total += len(l.Names)
	}
	w.o.Progress.tell(w.done, w.total)
	return nil
}

// batches lists the queue by multiRead.
func (w *walker) batches() error {
	return inFlight(w.ctx, atOnce, listWindow,
		func() ([]*Node, *zkconn.Pending[[]zkconn.Listing]) {
			var paths []string
			for bytes := 0; len(paths) < min(len(w.queue), listBatch) && bytes < batchBytes; {
				path := w.queue[len(paths)].Path
				paths = append(paths, path)
				bytes += len(path)
			}
			if paths == nil {
				return nil, nil
			}
			return w.next(len(paths)), w.p.MultiChildren(paths)
		},
		func(nodes []*Node, answers []zkconn.Listing, err error) error {
			for i, l := range answers {
				if err == nil {
					err = w.found(nodes[i], l)
				}
			}
			return err
		})
}

// singles lists the queue one request a node, many in flight.
func (w *walker) singles() error {
	return inFlight(w.ctx, atOnce, singleWindow,
		func() (*Node, *zkconn.Pending[[]string]) {
			if len(w.queue) == 0 {
				return nil, nil
			}
			n := w.next(1)[0]
			return n, w.p.Children(n.Path, w.o.Watch)
		},
		func(n *Node, names []string, err error) error {
			return w.found(n, zkconn.Listing{Names: names, Err: err})
		})
}

// next takes nodes off the queue.
func (w *walker) next(n int) (nodes []*Node) {
	nodes, w.queue = w.queue[:n], w.queue[n:]
	return nodes
}

// gone tells that a node vanished while the tree was listed.
func (n *Node) gone() bool { return n.Path == "" }

// All is the nodes in zkCli's order: the node itself, then for each node first all
// its children, then their subtrees.
func (n *Node) All() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { _ = yield(n) && n.below(yield) }
}

func (n *Node) below(yield func(*Node) bool) bool {
	for _, c := range n.Children {
		if !c.gone() && !yield(c) {
			return false
		}
	}
	for _, c := range n.Children {
		if !c.below(yield) {
			return false
		}
	}
	return true
}

// Stats is the Stat of every znode of a subtree by its path, but for what may not be
// seen. Without a root there is none.
func Stats(ctx context.Context, c zkconn.Client, root string) (map[string]*zk.Stat, error) {
	tree, _, err := List(ctx, c, root, Options{Partial: true})
	if errors.Is(err, zkconn.NoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return nil, err
	}
	var paths []string
	for n := range tree.All() {
		paths = append(paths, n.Path)
	}
	stats, done := make(map[string]*zk.Stat, len(paths)), 0
	var refused error
	err = each(ctx, atOnce, singleWindow, paths, p.Exists, func(st *zk.Stat, err error) {
		switch {
		case err == nil:
			stats[paths[done]] = st
		case !errors.Is(err, zkconn.NoNode) && !errors.Is(err, zkconn.NoAuth): // 3.9 lets see what may be read only
			refused = err
		}
		done++
	})
	return stats, errors.Join(err, refused)
}

// CountEphemerals returns how many znodes of a subtree are ephemeral, and of how many
// that may not be known. Only those without children are looked at: no others can be.
func CountEphemerals(ctx context.Context, c zkconn.Client, root string, progress Progress) (found, hidden int, err error) {
	tree, _, err := List(ctx, c, root, Options{})
	if err != nil {
		return 0, 0, err
	}
	p, err := c.Pipe(ctx, root)
	if err != nil {
		return 0, 0, err
	}
	var leaves []string
	for n := range tree.All() {
		if len(n.Children) == 0 {
			leaves = append(leaves, n.Path)
		}
	}
	var refused error
	done := 0
	err = each(ctx, atOnce, singleWindow, leaves, p.Exists, func(st *zk.Stat, err error) {
		switch {
		case err == nil && st.EphemeralOwner != 0:
			found++
		case errors.Is(err, zkconn.NoAuth): // from 3.9.2 on, and 3.8.4
			hidden++
		case err != nil && !errors.Is(err, zkconn.NoNode):
			refused = err
		}
		done++
		progress.tell(done, len(leaves))
	})
	return found, hidden, errors.Join(err, refused)
}

// patience says how long the answers to what was sent are waited for once the
// context has ended.
type patience time.Duration

const (
	atOnce   patience = 0                     // what is only read is not missed
	graceful          = patience(time.Second) // what was changed is counted
)

// inFlight keeps a window of requests under way on a pipe and takes their answers
// in order, refusals included. next makes a request, or none (nil) while there is
// nothing to ask for; answers may bring more to ask. Any other error than a
// refusal breaks it off, as does one of take. ctx is the one the pipe was made
// with, which therefore sends nothing any more once it has ended. A server that has
// too much to do with a window gets half of it.
func inFlight[J, T any](ctx context.Context, late patience, window int,
	next func() (J, *zkconn.Pending[T]), take func(J, T, error) error,
) error {
	type flight struct {
		job   J
		reply *zkconn.Pending[T]
	}
	var air []flight
	most := window
	waiting, done := outliving(ctx, late)
	defer done()
	for {
		for len(air) < window {
			job, reply := next()
			if reply == nil {
				break
			}
			air = append(air, flight{job, reply})
		}
		if len(air) == 0 {
			return nil
		}
		first := air[0]
		air = air[1:]
		v, err := first.reply.Wait(waiting)
		if first.reply.Slowed() {
			window = max(1, window/2)
		} else {
			window = min(most, window+1)
		}
		switch {
		case ctx.Err() != nil && errors.As(err, new(*zkconn.UnsentError)):
			return context.Cause(ctx)
		case err != nil && !errors.As(err, new(*zkconn.Error)):
			return err
		}
		if err := take(first.job, v, err); err != nil {
			return err
		}
	}
}

// each sends one request for each path.
func each[T any](ctx context.Context, late patience, window int, paths []string, send func(string) *zkconn.Pending[T], take func(T, error)) error {
	return inFlight(ctx, late, window,
		func() (string, *zkconn.Pending[T]) {
			if len(paths) == 0 {
				return "", nil
			}
			path := paths[0]
			paths = paths[1:]
			return path, send(path)
		},
		func(_ string, v T, err error) error { take(v, err); return nil })
}

// outliving gives a context that ends some time after ctx, with its cause.
func outliving(ctx context.Context, late patience) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // in a goroutine that ends with waiting
		select {
		case <-time.After(time.Duration(late)):
			cancel(context.Cause(ctx))
		case <-waiting.Done():
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}
