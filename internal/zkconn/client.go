package zkconn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Client sends single requests and waits for their answers. Paths are given and
// returned without the chroot. Every method checks the path by the Java client's
// rules first. Errors are *Error for a refusal; *NoServerError or *UnsentError
// when nothing was sent; *LostError when the connection broke after sending and
// *AbandonedError when the context ended then; ErrNotConnected after Close.
type Client struct {
	s        *Session
	absolute bool // paths are the server's
	unfenced bool
}

func (c Client) connection(ctx context.Context, path string) (target, error) {
	l := c.s.current()
	k, err := l.await(ctx, path, false)
	return target{k, l, c.root(l)}, err
}

func (c Client) fencedBy() Fence {
	if c.unfenced {
		return nil
	}
	return c.s.fence
}

func (c Client) root(l *link) chroot {
	if c.absolute {
		return ""
	}
	return l.root
}

// Get returns a znode's data, which is nil when it has none (null), and its
// Stat. With watch, a data watch is left.
func (c Client) Get(ctx context.Context, path string, watch bool) ([]byte, *zk.Stat, error) {
	n, err := do(ctx, c, getData(path, shown(watch)))
	return n.Data, n.Stat, err
}

// Exists returns the Stat of a znode. With watch, a watch is left, on its
// creation when it does not exist.
func (c Client) Exists(ctx context.Context, path string, watch bool) (*zk.Stat, error) {
	return do(ctx, c, exists(path, shown(watch)))
}

// Children returns the names of a znode's children, in the server's order, and
// its Stat. With watch, a child watch is left.
func (c Client) Children(ctx context.Context, path string, watch bool) (names []string, st *zk.Stat, err error) {
	l, err := do(ctx, c, list(path, shown(watch)))
	return l.Names, l.Stat, err
}

// ACL returns a znode's access control list and its Stat.
func (c Client) ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	a, err := do(ctx, c, getACL(path))
	return a.ACL, a.Stat, err
}

// CountChildren returns the number of a znode's descendants. Servers before 3.6
// answer Unimplemented and drop the connection.
func (c Client) CountChildren(ctx context.Context, path string) (int, error) {
	n, err := do(ctx, c, asking(jute.OpGetAllChildrenNumber, path, (*answer).Int, nil))
	return int(n), err
}

// Ephemerals returns the session's ephemeral znodes whose path begins with
// prefix, sorted. Below a chroot only those inside it are seen: to the server a
// bare chroot is a prefix of its siblings' names too.
func (c Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, c, asking(jute.OpGetEphemerals, prefix, func(a *answer) []string {
		paths := slices.DeleteFunc(a.Strings(), func(p string) bool { return !a.root.holds(p) })
		slices.Sort(a.root.clients(paths))
		return paths
	}, nil))
}

// Identity is one authentication of the session.
type Identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

// WhoAmI returns the session's authentications, sorted. Servers before 3.7
// answer Unimplemented and drop the connection.
func (c Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	ids, err := do(ctx, c, op[[]Identity]{
		code: jute.OpWhoAmI, encode: func(*jute.Encoder, chroot) {},
		decode: func(a *answer) (ids []Identity) {
			for range a.Count(8, 2*jute.StringCost) {
				ids = append(ids, Identity{Scheme: a.String(), User: a.String()})
			}
			return ids
		},
	})
	slices.SortFunc(ids, func(x, y Identity) int {
		return cmp.Or(strings.Compare(x.Scheme, y.Scheme), strings.Compare(x.User, y.User))
	})
	return ids, err
}

// Zxid is that of the latest transaction which the server knows, or knew a moment ago.
func (c Client) Zxid(ctx context.Context) (int64, error) {
	c.absolute = true
	return do(ctx, c, reread(exists("/", nil), func(a *answer) int64 { return a.zxid }))
}

// Multi carries out all of these changes or none, and returns what became of them. A
// refusal is that of the first that could not be made.
func (c Client) Multi(ctx context.Context, changes []Change) (Outcome, error) {
	trip := NewTrip()
	trip.Alone = true
	_, err := do(trip.Context(ctx), c, multiOf(changes))
	return trip.Outcome, err
}

// Sync waits until the server has caught up with the leader.
func (c Client) Sync(ctx context.Context, path string) error { return syncPath(ctx, c, path) }

// AddWatch leaves a persistent watch, on the whole subtree if recursive. Servers
// before 3.6 answer Unimplemented and drop the connection.
func (c Client) AddWatch(ctx context.Context, path string, recursive bool) error {
	kind, mode := persistentWatch, int32(0)
	if recursive {
		kind, mode = recursiveWatch, 1
	}
	o := asking(jute.OpAddWatch, path, (*answer).nothing, func(e *jute.Encoder) { e.Int(mode) })
	o.effect = func(l *link, a *answer) {
		if a.code == codeOK {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.watches.addMode(kind, a.root.server(path))
		}
	}
	_, err := do(ctx, c, o)
	return err
}

// RemoveWatches removes the session's watches on a path; each kind that was
// there shows as an event. With local they are forgotten here even when no
// server can be reached. The error is "No such watcher" when there is none.
func (c Client) RemoveWatches(ctx context.Context, path string, t WatcherType, local bool) error {
	l := c.s.current()
	server := c.root(l).server(path)
	o := asking(jute.OpRemoveWatches, path, (*answer).nothing, func(e *jute.Encoder) { e.Int(int32(t)) })
	if o.err == nil && !look(l, func() bool { return l.watches.has(true, server, covered[t]...) }) {
		o.err = &Error{Code: noWatcher, Path: path}
	}
	o.write = true
	o.effect = func(l *link, a *answer) {
		if a.code == codeOK {
			l.forgetWatches(a.root.server(path), t, syncConnected)
		}
	}
	_, err := do(ctx, c, o)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == marshallingError && t >= PersistentWatches {
		e.hint = "removewatches -p and -r need ZooKeeper 3.9 or later"
	}
	if local && errors.Is(err, ConnectionLoss) {
		l.forgetWatches(server, t, disconnected)
		return nil
	}
	return err
}

// Create makes a znode and returns its real path. Nil data is null.
func (c Client) Create(ctx context.Context, path string, data []byte, acl []zk.ACL, mode CreateMode) (string, error) {
	w, err := do(ctx, c, create(path, data, acl, mode))
	return strings.Join(w.Paths, ""), err
}

// Delete removes a znode if it has the version; -1 is any.
func (c Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, alone(removal(path, version)))
	return err
}

// Set writes a znode's data if it has the version; -1 is any.
func (c Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return do(ctx, c, set(path, data, version))
}

// Check is refused if the znode does not have the version; -1 is any.
func (c Client) Check(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, multi([]int32{version}, func(v int32) change { return check(path, v) }))
	return err
}

// SetACL writes a znode's access control list if its ACL has the version; -1 is any.
func (c Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return do(ctx, c, setACL(path, acl, version))
}

// QuotaPath is where a server keeps quotas, outside any chroot.
const QuotaPath = "/zookeeper/quota"

// ConfigPath is where a server keeps the ensemble's configuration, outside any
// chroot.
const ConfigPath = "/zookeeper/config"

// Reconfig is a change of the ensemble: Joining and Leaving change the present
// configuration, Members replaces it. Empty strings are sent as null.
type Reconfig struct {
	Joining, Leaving, Members string
	Version                   int64 // of the present configuration; -1 is any
}

// Reconfig changes the ensemble and returns the configuration that came of it.
func (c Client) Reconfig(ctx context.Context, r Reconfig) ([]byte, *zk.Stat, error) {
	n, err := do(ctx, c, op[Node]{
		code: jute.OpReconfig, write: true, decode: (*answer).node,
		encode: func(e *jute.Encoder, _ chroot) {
			for _, s := range []string{r.Joining, r.Leaving, r.Members} {
				if s == "" {
					e.Buffer(nil)
				} else {
					e.String(s)
				}
			}
			e.Long(r.Version)
		},
	})
	return n.Data, n.Stat, err
}

// Pipe sends many requests without waiting for each answer. It is bound to one
// TCP connection: the server carries its requests out in the order in which they
// were made, and when the connection breaks, all that follows fails. No method
// blocks, so whoever makes very many waits for some answers in between; and none
// is sent once the context the Pipe was made with has ended. One that a busy server
// refuses is sent again by its Wait, behind what was sent meanwhile.
type Pipe struct {
	ctx context.Context
	c   Client
	to  target
	g   guard
}

// Pipe binds to the present connection.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	to, err := c.connection(ctx, path)
	if err != nil {
		return nil, err
	}
	g, err := fencing(ctx, c, to.l)
	return &Pipe{ctx, c, to, g}, err
}

// add sends a request behind those made before.
func add[T any](p *Pipe, o op[T]) *Pending[T] {
	if o.err != nil {
		return bind(p.ctx, p.to, o)
	}
	return dispatch(p.ctx, p.to, o, p.g)
}

// Get asks for a znode's data and Stat.
func (p *Pipe) Get(path string) *Pending[Node] { return add(p, getData(path, nil)) }

// Exists asks for a znode's Stat, which needs no permission.
func (p *Pipe) Exists(path string) *Pending[*zk.Stat] { return add(p, exists(path, nil)) }

// Children asks for the names of a znode's children.
func (p *Pipe) Children(path string) *Pending[[]string] { return add(p, getChildren(path, nil)) }

// ACL asks for a znode's access control list and its Stat.
func (p *Pipe) ACL(path string) *Pending[Access] { return add(p, getACL(path)) }

// EachGet is Get for many znodes.
func (p *Pipe) EachGet(paths []string) *Several[Node] {
	return severally(p, paths, func(path string) op[Node] { return getData(path, nil) })
}

// EachExists is Exists for many znodes.
func (p *Pipe) EachExists(paths []string) *Several[*zk.Stat] {
	return severally(p, paths, func(path string) op[*zk.Stat] { return exists(path, nil) })
}

// EachChildren is Children for many znodes. With watch, child watches are left.
func (p *Pipe) EachChildren(paths []string, watch bool) *Several[[]string] {
	return severally(p, paths, func(path string) op[[]string] { return getChildren(path, shown(watch)) })
}

// EachList asks for the names of the children of many znodes and their Stats.
func (p *Pipe) EachList(paths []string) *Several[Listed] {
	return severally(p, paths, func(path string) op[Listed] { return list(path, nil) })
}

// EachACL is ACL for many znodes.
func (p *Pipe) EachACL(paths []string) *Several[Access] { return severally(p, paths, getACL) }

// MultiChildren asks for the children of many znodes in one request, which
// servers from 3.6 on understand. The answer has one Listing for each path.
func (p *Pipe) MultiChildren(paths []string) *Pending[[]Listing] { return add(p, multiChildren(paths)) }

// MultiGet asks for the data and Stat of many znodes in one request, which servers
// from 3.6 on understand. The answer has one Reading for each path; it may be as
// long as all their data together.
func (p *Pipe) MultiGet(paths []string) *Pending[[]Reading] { return add(p, multiGet(paths)) }

// Create asks to make one persistent znode.
func (p *Pipe) Create(path string, data []byte, acl []zk.ACL) *Pending[Written] {
	return add(p, create(path, data, acl, CreateMode{}))
}

// Delete asks to remove one znode, whatever its version.
func (p *Pipe) Delete(path string) *Pending[Written] { return add(p, alone(removal(path, -1))) }

// MultiDelete asks to remove all of these znodes or none. A refusal is that of
// the first that could not be removed.
func (p *Pipe) MultiDelete(paths []string) *Pending[Written] {
	return add(p, multi(paths, func(path string) change { return removal(path, -1) }))
}

// Multi asks to carry out all of these changes or none. A refusal is that of the first
// that could not be made.
func (p *Pipe) Multi(changes []Change) *Pending[Written] { return add(p, multiOf(changes)) }

// SetACL asks to write one znode's access control list.
func (p *Pipe) SetACL(path string, acl []zk.ACL, version int32) *Pending[*zk.Stat] {
	return add(p, setACL(path, acl, version))
}

// HasMultiRead reports whether the server of this pipe knows multiRead, as ZooKeeper
// from 3.6 on does. Others might drop the connection over it, so a server of another
// product or without a known version counts as old. One that drops the connection although
// it claims to know multiRead costs the pipe's connection: the pipe goes on with the next
// one, so all that was asked for before must have been answered, and nothing may depend
// on its being the same.
func (p *Pipe) HasMultiRead(ctx context.Context) bool {
	if l := p.to.l; look(l, func() bool { return l.hangUps[jute.OpMultiRead] > 0 }) {
		return false
	}
	v, err := p.to.Version(ctx)
	if err != nil || !v.AtLeast(6) {
		return false
	}
	if p.to.Passed(jute.OpMultiRead) {
		return true
	}
	_, err = begin(untripped(ctx), p.to, multiChildren([]string{"/"})).Wait(ctx)
	if _, hungUp := errors.AsType[*hangUp](err); !hungUp {
		return !errors.Is(err, Unimplemented)
	}
	if to, err := p.c.connection(ctx, ""); err == nil && to.l == p.to.l {
		p.to = to
	}
	return false
}

// LacksWhoAmI reports whether the server of this pipe says that it is too old to know
// whoAmI, or not ZooKeeper. It might drop the connection over it, and end the session.
func (p *Pipe) LacksWhoAmI(ctx context.Context) bool {
	v, err := p.to.Version(ctx)
	return err == nil && v.Product != "" && !v.AtLeast(7)
}
