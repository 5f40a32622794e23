package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// node is one child of a lock's path that takes part in the lock.
type node struct {
	zklock.Name
	name   string // the child's
	data   []byte
	hidden bool // its data is not for us to read
	stat   *zk.Stat
}

// contents are what was read below one path.
type contents struct {
	nodes   []*node  // that contend for the path itself
	leases  []*node  // of a Curator semaphore
	guard   []*node  // that wait to get a lease
	ignored []string // children that take no part
	max     int      // leases of a kazoo semaphore; 0: not known
	missing bool     // there is no such path
}

// reader reads what is below lock paths.
type reader struct {
	s     *zkconn.Session
	list  func(ctx context.Context, path string) ([]string, error)
	known map[string]*node // by path, which the next reading takes over; nil: none
}

// readQueue reads who holds and who waits below path. A path that does not
// exist is free. No more than what the znodes tell is in it; see addClients.
func readQueue(ctx context.Context, s *zkconn.Session, path string) (*queue, error) {
	list := func(ctx context.Context, path string) ([]string, error) {
		names, _, err := s.Children(ctx, path, false)
		return names, err
	}
	c, err := (&reader{s: s, list: list}).read(ctx, path)
	if err != nil {
		return nil, err
	}
	return newQueue(path, c), nil
}

func (r *reader) read(ctx context.Context, path string) (c contents, err error) {
	found := map[string]*node{}
	names, err := r.list(ctx, path)
	if errors.Is(err, zkconn.NoNode) {
		return contents{missing: true}, nil
	}
	if err != nil {
		return c, err
	}
	if c.nodes, c.ignored, err = r.nodes(ctx, path, names, found); err != nil {
		return c, err
	}
	if err := r.semaphores(ctx, path, &c, found); err != nil {
		return c, err
	}
	if r.known != nil {
		r.known = found
	}
	return c, nil
}

// semaphores reads what else belongs to Curator's and kazoo's.
func (r *reader) semaphores(ctx context.Context, path string, c *contents, found map[string]*node) (err error) {
	if slices.Contains(c.ignored, "leases") && slices.Contains(c.ignored, "locks") {
		c.ignored = slices.DeleteFunc(c.ignored, func(n string) bool { return n == "leases" || n == "locks" })
		if c.leases, err = r.below(ctx, joinPath(path, "leases"), found); err != nil {
			return err
		}
		c.guard, err = r.below(ctx, joinPath(path, "locks"), found)
	}
	if err != nil || !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.Kind == "kazoo semaphore" }) {
		return err
	}
	data, _, err := r.s.Get(ctx, path, false)
	if err != nil && !errors.Is(err, zkconn.NoAuth) && !errors.Is(err, zkconn.NoNode) {
		return err
	}
	if n, err := strconv.Atoi(string(data)); err == nil { // else it does not say
		c.max = n
	}
	guard, err := r.below(ctx, path+"-__lock__", found)
	c.guard = append(c.guard, guard...)
	return err
}

// below reads the contenders of a path that may be missing.
func (r *reader) below(ctx context.Context, path string, found map[string]*node) ([]*node, error) {
	names, err := r.list(ctx, path)
	if errors.Is(err, zkconn.NoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	nodes, _, err := r.nodes(ctx, path, names, found)
	return nodes, err
}

// nodes reads those children that take part, all in one flight, and in a second
// one the Stat of those whose data is not for us. Those gone by now are left out.
func (r *reader) nodes(ctx context.Context, path string, names []string, found map[string]*node) (nodes []*node, ignored []string, err error) {
	p, err := r.s.Pipe(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	gets := map[*node]*zkconn.Pending[zkconn.Node]{}
	stats := map[*node]*zkconn.Pending[*zk.Stat]{}
	for _, name := range names {
		parsed, ok := zklock.ParseName(name)
		if !ok {
			ignored = append(ignored, name)
			continue
		}
		child := joinPath(path, name)
		n := r.known[child]
		if n == nil {
			n = &node{Name: parsed, name: name}
			gets[n] = p.Get(child)
		}
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		get := gets[n]
		if get == nil {
			continue
		}
		got, err := get.Wait(ctx)
		switch {
		case err == nil:
			n.data, n.stat = got.Data, got.Stat
		case errors.Is(err, zkconn.NoAuth):
			n.hidden = true
			stats[n] = p.Exists(joinPath(path, n.name))
		case !errors.Is(err, zkconn.NoNode):
			return nil, nil, err
		}
	}
	for n, stat := range stats {
		if n.stat, err = stat.Wait(ctx); err != nil && !errors.Is(err, zkconn.NoNode) {
			return nil, nil, err
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n.stat == nil })
	for _, n := range nodes {
		found[joinPath(path, n.name)] = n
	}
	slices.Sort(ignored)
	return inOrder(nodes), ignored, nil
}

// inOrder sorts contenders as they came: by their sequence numbers, or by the
// transactions that made them where the numbers do not tell, since the counter
// has overflowed or there is none.
func inOrder(nodes []*node) []*node {
	byNumber := !slices.ContainsFunc(nodes, func(n *node) bool { return n.Number < 0 || n.Number == math.MaxInt32 })
	slices.SortFunc(nodes, func(a, b *node) int {
		if byNumber && a.Number != b.Number {
			return cmp.Compare(a.Number, b.Number)
		}
		return cmp.Or(cmp.Compare(a.stat.Czxid, b.stat.Czxid), cmp.Compare(a.Number, b.Number), strings.Compare(a.name, b.name))
	})
	return nodes
}

// asOne tells whether b is another name of the contender a: one transaction made
// both, for clients of another family to see.
func asOne(a, b *node) bool {
	return a.stat.Czxid == b.stat.Czxid && a.stat.EphemeralOwner == b.stat.EphemeralOwner &&
		a.Mode == b.Mode && a.Kind != b.Kind && b.Number == a.Number+1
}

// contenders makes a list of who contends for a path, with their states.
func contenders(nodes []*node) []*contender {
	var list []*contender
	exclusive, some := false, false // is there one ahead?
	for i, n := range nodes {
		if i > 0 && asOne(nodes[i-1], n) {
			last := list[len(list)-1]
			last.add(n)
			continue
		}
		c := newContender(n)
		switch {
		case n.Mode == zklock.Counted:
			c.State = holds
		case n.Mode == zklock.Exclusive && some, n.Mode == zklock.Shared && exclusive:
			c.State = waits
		default:
			c.State = holds
		}
		if n.Mode != zklock.Counted {
			some = true
			exclusive = exclusive || n.Mode == zklock.Exclusive
		}
		list = append(list, c)
	}
	return list
}

// semaphore lists a semaphore's leases, and behind them who waits for one. A
// client takes the guard's lock, makes a lease, and lets the guard go when it has
// it: Curator's waits for room with the lease made, kazoo's before.
func semaphore(leases, guard []*node) []*contender {
	list := contenders(leases)
	if len(guard) > 0 && len(list) > 0 {
		head, last := guard[0], list[len(list)-1]
		if last.stat.EphemeralOwner == head.stat.EphemeralOwner && last.stat.Czxid > head.stat.Czxid {
			guard = guard[1:]
			if last.Kind == "Curator semaphore" {
				last.State = waits
			}
		}
	}
	for _, n := range guard {
		c := newContender(n)
		c.State, c.Mode, c.Kind = waits, zklock.Counted, "semaphore's guard"
		c.groups = []*lockGroup{nil}
		list = append(list, c)
	}
	return list
}

func joinPath(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }
