package zkconn

import (
	"context"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Get returns a znode's data, which is nil when it has none (null), and its
// Stat. With watch, a data watch is left.
func (c Client) Get(ctx context.Context, path string, watch bool) ([]byte, *zk.Stat, error) {
	d, _, err := c.do(ctx, request{op: jute.OpGetData, path: path, encode: pathFlag(watch), hook: watchHook(watch, DataWatch, false)})
	if err != nil {
		return nil, nil, err
	}
	data := d.Buffer()
	stat := readStat(d)
	return data, stat, d.Err()
}

// Exists returns the Stat of a znode. With watch, a watch is left, on its
// creation when it does not exist.
func (c Client) Exists(ctx context.Context, path string, watch bool) (*zk.Stat, error) {
	d, _, err := c.do(ctx, request{op: jute.OpExists, path: path, encode: pathFlag(watch), hook: watchHook(watch, DataWatch, true)})
	if err != nil {
		return nil, err
	}
	return readStat(d), d.Err()
}

// Children returns the names of a znode's children, in the server's order, and
// its Stat. With watch, a child watch is left.
func (c Client) Children(ctx context.Context, path string, watch bool) ([]string, *zk.Stat, error) {
	d, _, err := c.do(ctx, request{op: jute.OpGetChildren2, path: path, encode: pathFlag(watch), hook: watchHook(watch, ChildWatch, false)})
	if err != nil {
		return nil, nil, err
	}
	names := d.Strings()
	return names, readStat(d), d.Err()
}

// ACL returns a znode's access control list and its Stat.
func (c Client) ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	d, _, err := c.do(ctx, request{op: jute.OpGetACL, path: path, encode: func(e *jute.Encoder, p string) { e.String(p) }})
	if err != nil {
		return nil, nil, err
	}
	acl := readACL(d)
	return acl, readStat(d), d.Err()
}

// CountChildren returns the number of a znode's descendants. Servers before 3.6
// answer Unimplemented and drop the connection.
func (c Client) CountChildren(ctx context.Context, path string) (int, error) {
	d, _, err := c.do(ctx, request{op: jute.OpGetAllChildrenNumber, path: path, encode: func(e *jute.Encoder, p string) { e.String(p) }})
	if err != nil {
		return 0, err
	}
	return int(d.Int()), d.Err()
}

// Ephemerals returns the session's ephemeral znodes whose path begins with
// prefix, sorted. Below a chroot only those inside it are seen.
func (c Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	encode := func(e *jute.Encoder, p string) {
		// A bare chroot is a prefix of its siblings' names too; they are dropped below.
		e.String(p)
	}
	d, l, err := c.do(ctx, request{op: jute.OpGetEphemerals, path: prefix, encode: encode})
	if err != nil {
		return nil, err
	}
	paths := slices.DeleteFunc(d.Strings(), func(p string) bool { return !l.inside(p) })
	for i, p := range paths {
		paths[i] = c.clientPath(l, p)
	}
	slices.Sort(paths)
	return paths, d.Err()
}

// Identity is one authentication of the session.
type Identity struct {
	Scheme string `json:"scheme"`
	User   string `json:"user"`
}

// WhoAmI returns the session's authentications, sorted. Servers before 3.7
// answer Unimplemented and drop the connection.
func (c Client) WhoAmI(ctx context.Context) ([]Identity, error) {
	d, _, err := c.send(ctx, request{op: jute.OpWhoAmI, encode: func(*jute.Encoder, string) {}})
	if err != nil {
		return nil, err
	}
	var ids []Identity
	for range d.Count(8) {
		ids = append(ids, Identity{Scheme: d.String(), User: d.String()})
	}
	slices.SortFunc(ids, func(a, b Identity) int {
		if n := strings.Compare(a.Scheme, b.Scheme); n != 0 {
			return n
		}
		return strings.Compare(a.User, b.User)
	})
	return ids, d.Err()
}

// Sync waits until the server has caught up with the leader.
func (c Client) Sync(ctx context.Context, path string) error {
	_, _, err := c.do(ctx, request{op: jute.OpSync, path: path, encode: func(e *jute.Encoder, p string) { e.String(p) }})
	return err
}

// AddWatch leaves a persistent watch, on the whole subtree if recursive. Servers
// before 3.6 answer Unimplemented and drop the connection.
func (c Client) AddWatch(ctx context.Context, path string, recursive bool) error {
	kind, mode := PersistentWatch, int32(0)
	if recursive {
		kind, mode = RecursiveWatch, 1
	}
	encode := func(e *jute.Encoder, p string) {
		e.String(p)
		e.Int(mode)
	}
	hook := func(l *link, p string, r *reply) {
		if r.code == OK {
			l.mu.Lock()
			defer l.mu.Unlock()
			// A node has one persistent watch of a session, of the mode set last.
			l.watches.remove(p, PersistentWatch, RecursiveWatch)
			l.watches.add(kind, p)
		}
	}
	_, _, err := c.do(ctx, request{op: jute.OpAddWatch, path: path, encode: encode, hook: hook})
	return err
}
