package zkconn

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
)

// A Client sends operations in the current session of a Session. Paths do not include the chroot,
// unless the Client was returned by Absolute. To send many operations at once, use Pipe.
type Client struct {
	s        *Session
	absolute bool // whether paths include the chroot
	unfenced bool // whether writes are exempt from the Session's Fence
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

// mayJoin reports whether requests of this Client may join a Transaction.
func (c Client) mayJoin() bool { return !c.absolute }

func (c Client) root(l *link) chroot {
	if c.absolute {
		return ""
	}
	return l.root
}

// Absolute returns a Client like c whose paths include the chroot. It is for znodes outside the
// chroot, such as quotas.
func (c Client) Absolute() Client {
	c.absolute = true
	return c
}

// ServerPath adds the chroot to a path of the Client, and returns the path on the server.
func (c Client) ServerPath(path string) string { return c.root(c.s.current()).server(path) }

// ClientPath removes the chroot from a path on the server, and returns the path of the Client. It
// returns a path outside the chroot unchanged.
func (c Client) ClientPath(path string) string { return c.root(c.s.current()).client(path) }

// Multi carries out all changes or none, in one request, and returns their Outcome.
func (c Client) Multi(ctx context.Context, changes []Change) (Outcome, error) {
	trip := NewTrip()
	trip.Alone = true
	err := Exec(trip.Context(ctx), c, Multi(changes))
	return trip.Outcome, err
}

// RemoveWatches removes the session's watches of type t on a path. It adds an event to the
// Session's Events for each removed kind of watch. If local is true and no server can be reached,
// it only removes the watches from zksh's records. If there is no such watch, the error is "No
// such watcher".
func (c Client) RemoveWatches(ctx context.Context, path string, t WatcherType, local bool) error {
	l := c.s.current()
	server := c.root(l).server(path)
	o := request(jute.OpRemoveWatches, path, (*answer).nothing, func(e *jute.Encoder) { e.Int(int32(t)) })
	if o.err == nil && !underLock(l, func() bool { return l.watches.has(true, server, covered[t]...) }) {
		o.err = &Error{Code: noWatcher, Path: path}
	}
	o.write = true
	o.effect = func(l *link, a *answer) {
		if a.code == codeOK {
			l.forgetWatches(a.root.server(path), t, syncConnected)
		}
	}
	err := Exec(ctx, c, o)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == MarshallingError && t >= PersistentWatches {
		e.hint = "removewatches -p and -r need ZooKeeper 3.9 or later"
	}
	if local && errors.Is(err, ConnectionLoss) {
		l.forgetWatches(server, t, disconnected)
		return nil
	}
	return err
}

// QuotaPath is the path of the znode with the quotas, on the server. It does not depend on the
// chroot.
const QuotaPath = "/zookeeper/quota"

// Names of the two znodes with the quota of one path, as in org.apache.zookeeper.Quotas. Their
// parent is QuotaPath, followed by the path.
const (
	QuotaLimits = "zookeeper_limits"
	QuotaStats  = "zookeeper_stats"
)

// ConfigPath is the path of the znode with the ensemble's configuration, on the server. It does
// not depend on the chroot.
const ConfigPath = "/zookeeper/config"
