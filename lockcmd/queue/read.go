package queue

import (
	"context"
	"errors"
	"path"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// source is what a queue is read from. Errors are told apart with errors.Is and
// go-zookeeper's values.
type source interface {
	// Children lists the names of a znode's children.
	Children(ctx context.Context, path string) ([]string, error)
	// Nodes reads znodes, all in one flight, and gives them in the order asked for.
	Nodes(ctx context.Context, paths []string) ([]Node, error)
}

// Ensemble is a client of ZooKeeper that can also ask its servers, one by one.
type Ensemble interface {
	source
	cluster.Ensemble
}

// Node is what was read of a znode.
type Node struct {
	Data   []byte
	Hidden bool     // the data is not for us to read
	Stat   *zk.Stat // nil: the znode is gone; zero: it is there, but not for us to read either
}

// node is one child of a lock's path that takes part in the lock.
type node struct {
	Node
	zklock.Name
	path string
}

func (n *node) name() string { return path.Base(n.path) }

// contents are what was read below one path.
type contents struct {
	nodes   []*node  // that contend for the path itself
	leases  []*node  // of a Curator semaphore
	guard   []*node  // that wait to get a lease
	ignored []string // children that take no part
	max     int      // leases of a kazoo semaphore; 0: not known
	missing bool     // there is no such path
}

// Read reads who holds and who waits below path. A path that does not exist is
// free. No more than what the znodes tell is in it; Look has more.
func Read(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	c, err := (&reader{e: e}).read(ctx, path)
	if err != nil {
		return nil, err
	}
	return newQueue(path, c), nil
}

// reader reads what is below lock paths.
type reader struct {
	e     source
	known map[string]*node // by path: what need not be read again
	found map[string]*node // by path: all of the present reading
}

func (r *reader) read(ctx context.Context, dir string) (c contents, err error) {
	r.found = map[string]*node{}
	if c, err = r.below(ctx, dir); err != nil {
		return c, err
	}
	return c, r.semaphores(ctx, dir, &c)
}

// semaphores reads what else belongs to Curator's and kazoo's.
func (r *reader) semaphores(ctx context.Context, dir string, c *contents) error {
	if slices.Contains(c.ignored, "leases") && slices.Contains(c.ignored, "locks") {
		c.ignored = slices.DeleteFunc(c.ignored, func(n string) bool { return n == "leases" || n == "locks" })
		leases, err := r.below(ctx, path.Join(dir, "leases"))
		if err != nil {
			return err
		}
		guard, err := r.below(ctx, path.Join(dir, "locks"))
		if err != nil {
			return err
		}
		c.leases, c.guard = leases.nodes, guard.nodes
	}
	if !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.Kind == kazooSemaphore }) {
		return nil
	}
	folder, err := r.e.Nodes(ctx, []string{dir})
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(folder[0].Data)); err == nil { // else it does not say
		c.max = n
	}
	guard, err := r.below(ctx, dir+kazooGuard)
	c.guard = append(c.guard, guard.nodes...)
	return err
}

// below reads those children of a path that take part. Those gone by now are left
// out.
func (r *reader) below(ctx context.Context, dir string) (c contents, err error) {
	names, err := r.e.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return contents{missing: true}, nil
	}
	if err != nil {
		return c, err
	}
	var unread []*node
	var paths []string // of the unread
	for _, name := range names {
		parsed, ok := zklock.ParseName(name)
		if !ok {
			c.ignored = append(c.ignored, name)
			continue
		}
		child := path.Join(dir, name)
		n := r.known[child]
		if n == nil {
			n = &node{Name: parsed, path: child}
			unread, paths = append(unread, n), append(paths, child)
		}
		c.nodes = append(c.nodes, n)
		r.found[child] = n
	}
	if len(unread) > 0 {
		got, err := r.e.Nodes(ctx, paths)
		if err != nil {
			return c, err
		}
		for i, n := range unread {
			if n.Node = got[i]; n.Stat == nil {
				delete(r.found, paths[i])
			}
		}
	}
	c.nodes = inOrder(slices.DeleteFunc(c.nodes, func(n *node) bool { return n.Stat == nil }))
	slices.Sort(c.ignored)
	return c, nil
}
