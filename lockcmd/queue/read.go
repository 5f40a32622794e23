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

// znodeReader reads the znodes of queues. Its errors support errors.Is with go-zookeeper's
// values.
type znodeReader interface {
	// Children returns the names of a znode's children.
	Children(ctx context.Context, path string) ([]string, error)
	// Nodes reads znodes with all requests in flight at once, and returns them in the order of
	// paths.
	Nodes(ctx context.Context, paths []string) ([]Node, error)
}

// Ensemble is a ZooKeeper client that can also query each server on its own.
type Ensemble interface {
	znodeReader
	cluster.Ensemble
}

// Node is the result of reading a znode.
type Node struct {
	Data   []byte
	Hidden bool     // no permission to read the data
	Stat   *zk.Stat // nil if the znode is gone; zero if it exists but its Stat is unreadable, too
}

// node is a contender's znode: a child of a lock's path.
type node struct {
	Node
	zklock.Name
	path string
}

func (n *node) name() string { return path.Base(n.path) }

// contents are the znodes below one path.
type contents struct {
	nodes     []*node  // contenders for the path itself
	leases    []*node  // leases of a Curator semaphore
	guard     []*node  // waiters for a lease of a semaphore
	ignored   []string // names of children that are not contenders
	maxLeases int      // limit of a kazoo semaphore; 0 if unknown
	missing   bool     // the path does not exist
}

// Read reads the queue at path. A path that does not exist is a free lock. The queue contains
// only information from the znodes; Look adds the clients' addresses.
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
	cache map[string]*node // by path; znodes that need not be read again
	found map[string]*node // by path; all znodes of the current reading
}

func (r *reader) read(ctx context.Context, dir string) (c contents, err error) {
	r.found = map[string]*node{}
	if c, err = r.readChildren(ctx, dir); err != nil {
		return c, err
	}
	return c, r.readSemaphore(ctx, dir, &c)
}

// readSemaphore reads the other znodes of Curator's and kazoo's semaphores.
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

// readChildren reads the children of a path that are contenders. It leaves out children that
// are gone meanwhile.
func (r *reader) readChildren(ctx context.Context, dir string) (c contents, err error) {
	names, err := r.e.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return contents{missing: true}, nil
	}
	if err != nil {
		return c, err
	}
	var unread []*node
	var paths []string // their paths
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
