package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Client sends single requests and waits for their answers. Paths are given and
// returned without the chroot. Every method checks the path by the Java client's
// rules first. Errors are *Error for a refusal; *NoServerError or *UnsentError
// when nothing was sent; *LostError when the connection broke after sending and
// *AbandonedError when the context ended then; ErrNotConnected after Close.
type Client struct {
	s        *Session
	absolute bool // paths are the server's
}

func (c Client) connection(ctx context.Context, path string) (*frameConn, chroot, error) {
	l := c.s.current()
	k, err := l.await(ctx, path, false)
	return k, c.root(l), err
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
func (c Client) Children(ctx context.Context, path string, watch bool) ([]string, *zk.Stat, error) {
	f, err := do(ctx, c, getChildren2(path, shown(watch)))
	return f.names, f.stat, err
}

// ACL returns a znode's access control list and its Stat.
func (c Client) ACL(ctx context.Context, path string) ([]zk.ACL, *zk.Stat, error) {
	a, err := do(ctx, c, getACL(path))
	return a.list, a.stat, err
}

// CountChildren returns the number of a znode's descendants. Servers before 3.6
// answer Unimplemented and drop the connection.
func (c Client) CountChildren(ctx context.Context, path string) (int, error) {
	return do(ctx, c, countChildren(path))
}

// Ephemerals returns the session's ephemeral znodes whose path begins with
// prefix, sorted. Below a chroot only those inside it are seen.
func (c Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	return do(ctx, c, getEphemerals(prefix))
}

// WhoAmI returns the session's authentications, sorted. Servers before 3.7
// answer Unimplemented and drop the connection.
func (c Client) WhoAmI(ctx context.Context) ([]Identity, error) { return do(ctx, c, whoAmI()) }

// Sync waits until the server has caught up with the leader.
func (c Client) Sync(ctx context.Context, path string) error {
	_, err := do(ctx, c, syncPath(path))
	return err
}

// AddWatch leaves a persistent watch, on the whole subtree if recursive. Servers
// before 3.6 answer Unimplemented and drop the connection.
func (c Client) AddWatch(ctx context.Context, path string, recursive bool) error {
	_, err := do(ctx, c, addWatch(path, recursive))
	return err
}

// RemoveWatches removes the session's watches on a path; each kind that was
// there shows as an event. With local they are forgotten here even when no
// server can be reached. The error is NoWatcher when there is none.
func (c Client) RemoveWatches(ctx context.Context, path string, t WatcherType, local bool) error {
	if err := ValidatePath(path, false); err != nil {
		return err
	}
	l := c.s.current()
	server := c.root(l).server(path)
	l.mu.Lock()
	watching := l.watches.has(server, t.kinds()...)
	l.mu.Unlock()
	if !watching {
		return &Error{Code: NoWatcher, Path: path}
	}
	_, err := do(ctx, c, removeWatches(path, t))
	if local && errors.Is(err, ConnectionLoss) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forgetWatches(server, t, disconnected)
		return nil
	}
	return err
}

// Create makes a znode and returns its real path. Nil data is null.
func (c Client) Create(ctx context.Context, path string, data []byte, acl []zk.ACL, mode CreateMode) (string, error) {
	w, err := do(ctx, c, create(path, data, acl, mode))
	if err != nil {
		return "", err
	}
	return w.Paths[0], nil
}

// Delete removes a znode if it has the version; -1 is any.
func (c Client) Delete(ctx context.Context, path string, version int32) error {
	_, err := do(ctx, c, alone(removal(path, version)))
	return err
}

// Set writes a znode's data if it has the version; -1 is any.
func (c Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	return do(ctx, c, setData(path, data, version))
}

// SetACL writes a znode's access control list if its ACL has the version; -1 is any.
func (c Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	return do(ctx, c, setACL(path, acl, version))
}

// Reconfig changes the ensemble and returns the configuration that came of it.
func (c Client) Reconfig(ctx context.Context, r Reconfig) ([]byte, *zk.Stat, error) {
	n, err := do(ctx, c, reconfig(r))
	return n.Data, n.Stat, err
}
