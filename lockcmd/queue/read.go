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

// A znodeReader reads the znodes of lock queues. Its errors wrap those of go-zookeeper, so that
// errors.Is(err, zk.ErrNoNode) works.
type znodeReader interface {
	// Children returns the names of a znode's children.
	Children(ctx context.Context, path string) ([]string, error)
	// Nodes reads the znodes at paths with pipelined requests. The result has the same order as
	// paths.
	Nodes(ctx context.Context, paths []string) ([]Node, error)
	// Stats is like Nodes, but returns only the Stats. See Node.Stat.
	Stats(ctx context.Context, paths []string) ([]*zk.Stat, error)
}

// An Ensemble is a client of an ensemble that can also query each of its servers individually.
type Ensemble interface {
	znodeReader
	cluster.Ensemble
	// Sync waits until the client's server has executed every transaction that the leader had
	// begun before the call.
	Sync(ctx context.Context, path string) error
}

// A Node contains the data and the Stat of a znode that was read.
type Node struct {
	Data   []byte
	Hidden bool     // whether zksh has no permission to read the data
	Stat   *zk.Stat // nil if the znode does not exist; all zero if it exists but its Stat is unreadable
}

// A node is the znode of a contender, below the path of a lock.
type node struct {
	Node
	zklock.Name
	path string
}

func (n *node) name() string { return path.Base(n.path) }

// contents groups the znodes below the path of one lock by their role in the lock recipe.
type contents struct {
	nodes     []*node  // contenders whose znodes are children of the path itself
	leases    []*node  // znodes of the leases of a Curator semaphore
	guard     []*node  // znodes of clients that wait for a lease of a semaphore
	ignored   []string // names of children that are not contenders
	kazoo     bool     // nodes contains leases of a kazoo semaphore
	maxLeases int      // number of leases of a kazoo semaphore; 0 if unknown
	missing   bool     // whether the path does not exist
	childless bool     // whether the path exists and has no children
	single    *node    // the znode at the path itself, if it is ephemeral
	strangers []*node  // ignored children that are ephemeral and sequential
}

// Read reads the queue of the lock at path. If the path does not exist, the lock is free. The
// result does not contain the addresses of the clients; use Look for these.
func Read(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	c, err := (&reader{e: e}).readAll(ctx, path)
	if err != nil {
		return nil, err
	}
	return newQueue(path, c), nil
}

// ReadKnown is like Read, but ignores everything that belongs to no known recipe, which saves a
// request. A lock of this program waits only for contenders of known recipes.
func ReadKnown(ctx context.Context, e Ensemble, path string) (*Queue, error) {
	c, err := (&reader{e: e}).read(ctx, path)
	if err != nil {
		return nil, err
	}
	return newQueue(path, c), nil
}

// A reader reads the queues of locks.
type reader struct {
	e     znodeReader
	cache map[string]*node // znodes that were read earlier and need not be read again, by path
	found map[string]*node // znodes that the current call of read has found, by path
}

// readAll reads the contenders at dir, and what may be a lock of an unknown recipe.
func (r *reader) readAll(ctx context.Context, dir string) (c contents, err error) {
	if c, err = r.read(ctx, dir); err != nil {
		return c, err
	}
	return c, r.readUnknown(ctx, dir, &c)
}

// read reads the contenders of known recipes at dir.
func (r *reader) read(ctx context.Context, dir string) (c contents, err error) {
	r.found = map[string]*node{}
	if c, err = r.readChildren(ctx, dir); err != nil {
		return c, err
	}
	return c, r.readSemaphore(ctx, dir, &c)
}

// readSemaphore reads the additional znodes of a Curator or kazoo semaphore into c. It does
// nothing if dir is another kind of lock.
func (r *reader) readSemaphore(ctx context.Context, dir string, c *contents) error {
	if slices.Contains(c.ignored, "leases") {
		if err := r.readLeases(ctx, dir, c); err != nil {
			return err
		}
	}
	if c.kazoo = slices.ContainsFunc(c.nodes, func(n *node) bool { return n.Kind == kazooSemaphore }); !c.kazoo {
		return nil
	}
	folder, err := r.e.Nodes(ctx, []string{dir})
	if err != nil {
		return err
	}
	// Ignore data that is not a number. The limit then remains unknown.
	if n, err := strconv.Atoi(string(folder[0].Data)); err == nil {
		c.maxLeases = n
	}
	guard, err := r.readChildren(ctx, dir+kazooGuard)
	c.guard = append(c.guard, guard.nodes...)
	return err
}

// readLeases reads the leases and the waiters of Curator's semaphore at dir. While nobody waits,
// the server may have deleted the container of the waiters. Without it and without leases, dir
// belongs to no semaphore.
func (r *reader) readLeases(ctx context.Context, dir string, c *contents) error {
	leases, err := r.readChildren(ctx, path.Join(dir, "leases"))
	if err != nil {
		return err
	}
	var guard contents
	if slices.Contains(c.ignored, "locks") {
		if guard, err = r.readChildren(ctx, path.Join(dir, "locks")); err != nil {
			return err
		}
	} else if !slices.ContainsFunc(leases.nodes, func(n *node) bool { return n.Kind == curatorSemaphore }) {
		return nil
	}
	c.ignored = slices.DeleteFunc(c.ignored, func(n string) bool { return n == "leases" || n == "locks" })
	c.leases, c.guard = leases.nodes, guard.nodes
	return nil
}

// readChildren reads the children of dir that belong to contenders. It skips znodes that are
// deleted while it runs.
func (r *reader) readChildren(ctx context.Context, dir string) (c contents, err error) {
	names, err := r.e.Children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return contents{missing: true}, nil
	}
	if err != nil {
		return c, err
	}
	c.childless = len(names) == 0
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
