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

// znodeReader reads the znodes of queues. errors.Is can compare its errors with the error values
// of go-zookeeper.
type znodeReader interface {
	// Children returns the names of a znode's children.
	Children(ctx context.Context, path string) ([]string, error)
	// Nodes reads the znodes at paths with pipelined requests, and returns them in the order of
	// paths.
	Nodes(ctx context.Context, paths []string) ([]Node, error)
}

// Ensemble is a ZooKeeper client that can also query each server individually.
type Ensemble interface {
	znodeReader
	cluster.Ensemble
}

// Node is the result of reading a znode.
type Node struct {
	Data   []byte
	Hidden bool     // no permission to read the data
	Stat   *zk.Stat // nil if the znode is gone; zero if it exists but its Stat is also unreadable
}

// node is a contender's znode: a child of a lock's path.
type node struct {
	Node
	zklock.Name
	path string
}

func (n *node) name() string { return path.Base(n.path) }

// contents contains the znodes below one path, grouped by their role.
type contents struct {
	nodes     []*node  // contenders for the path itself
	leases    []*node  // leases of a Curator semaphore
	guard     []*node  // waiters for a lease of a semaphore
	ignored   []string // names of children that are not contenders
	maxLeases int      // limit of a kazoo semaphore; 0 if unknown
	missing   bool     // the path does not exist
}

// Read reads the queue at path. If the path does not exist, the lock is free. The queue contains
// only information from the znodes; Look adds the addresses of the clients.
func Read(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	c, err := (&reader{e: e}).read(ctx, path)
	if err != nil {
		return nil, err
	}
	return newQueue(path, c), nil
}

// reader reads the znodes below lock paths.
type reader struct {
	e     znodeReader
	cache map[string]*node // znodes that need not be read again, by path
	found map[string]*node // all znodes of the current reading, by path
}

func (r *reader) read(ctx context.Context, dir string) (c contents, err error) {
	r.found = map[string]*node{}
	if c, err = r.readChildren(ctx, dir); err != nil {
		return c, err
	}
	return c, r.readSemaphore(ctx, dir, &c)
}

// readSemaphore reads the other znodes of a queue if it belongs to a semaphore of Curator or
// kazoo.
func (r *reader) readSemaphore(ctx context.Context, dir string, c *contents) error {
	if slices.Contains(c.ignored, "leases") && slices.Contains(c.ignored, "locks") {
		c.ignored = slices.DeleteFunc(c.ignored, func(n string) bool { return n == "leases" || n == "locks" })
		leases, err := r.readChildren(ctx, path.Join(dir, "leases"))
		if err != nil {
			return err
		}
		guard, err := r.readChildren(ctx, path.Join(dir, "locks"))
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
	if n, err := strconv.Atoi(string(folder[0].Data)); err == nil { // otherwise the limit is unknown
		c.maxLeases = n
	}
	guard, err := r.readChildren(ctx, dir+kazooGuard)
	c.guard = append(c.guard, guard.nodes...)
	return err
}

// readChildren reads the children of dir that are contenders. It skips children that are deleted
// meanwhile.
func (r *reader) readChildren(ctx context.Context, dir string) (c contents, err error) {
	names, err := r.e.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return contents{missing: true}, nil
	}
	if err != nil {
		return c, err
	}
	var unread []*node
	var paths []string // paths of the unread znodes
	for _, name := range names {
		parsed, ok := zklock.ParseName(name)
		if !ok {
			c.ignored = append(c.ignored, name)
			continue
		}
		child := path.Join(dir, name)
		n := r.cache[child]
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
	c.nodes = sortByArrival(slices.DeleteFunc(c.nodes, func(n *node) bool { return n.Stat == nil }))
	slices.Sort(c.ignored)
	return c, nil
}
