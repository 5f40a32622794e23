package zkconn

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
)

// A Client sends operations in a Session, each with Do or Exec, or many at once through a
// Pipe. Operations take and return paths without the chroot.
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

// mayJoin reports whether requests may join a Transaction.
func (c Client) mayJoin() bool { return !c.absolute }

func (c Client) root(l *link) chroot {
	if c.absolute {
		return ""
	}
	return l.root
}

// Multi sends the operation Multi and returns what became of its changes.
func (c Client) Multi(ctx context.Context, changes []Change) (Outcome, error) {
	trip := NewTrip()
	trip.Alone = true
	err := Exec(trip.Context(ctx), c, Multi(changes))
	return trip.Outcome, err
}

// RemoveWatches removes the session's watches on a path; each kind that was
// there shows as an event. With local they are forgotten here even when no
// server can be reached. The error is "No such watcher" when there is none.
func (c Client) RemoveWatches(ctx context.Context, path string, t WatcherType, local bool) error {
	l := c.s.current()
	server := c.root(l).server(path)
	o := request(jute.OpRemoveWatches, path, (*answer).nothing, func(e *jute.Encoder) { e.Int(int32(t)) })
	if o.err == nil && !look(l, func() bool { return l.watches.has(true, server, covered[t]...) }) {
		o.err = &Error{Code: noWatcher, Path: path}
	}
	o.write = true
	o.effect = func(l *link, a *answer) {
		if a.code == codeOK {
			l.forgetWatches(a.root.server(path), t, syncConnected)
		}
	}
	err := Exec(ctx, c, o)
	if e, ok := errors.AsType[*Error](err); ok && e.Code == marshallingError && t >= PersistentWatches {
		e.hint = "removewatches -p and -r need ZooKeeper 3.9 or later"
	}
	if local && errors.Is(err, ConnectionLoss) {
		l.forgetWatches(server, t, disconnected)
		return nil
	}
	return err
}

// QuotaPath is where a server keeps quotas, outside any chroot.
const QuotaPath = "/zookeeper/quota"

// ConfigPath is where a server keeps the ensemble's configuration, outside any
// chroot.
const ConfigPath = "/zookeeper/config"
