package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// CreateMode says what kind of znode to create. A TTL of zero means none.
type CreateMode struct {
	Ephemeral  bool
	Sequential bool
	Container  bool
	TTL        time.Duration // whole milliseconds are used
}

// flagContainer marks a container znode in a create request.
const flagContainer = 4

// flags is CreateMode.toFlag of the Java client.
func (m CreateMode) flags() (op, flags int32, err error) {
	switch {
	case m.Container && (m.Ephemeral || m.Sequential || m.TTL != 0), m.TTL != 0 && m.Ephemeral, m.TTL < 0:
		return 0, 0, fmt.Errorf("no znode can be of mode %+v", m)
	case m.Container:
		return jute.OpCreateContainer, flagContainer, nil
	case m.TTL != 0 && m.Sequential:
		return jute.OpCreateTTL, 6, nil
	case m.TTL != 0:
		return jute.OpCreateTTL, 5, nil
	}
	if m.Ephemeral {
		flags |= 1
	}
	if m.Sequential {
		flags |= 2
	}
	return jute.OpCreate, flags, nil
}

// OpenACL lets everybody do everything: zkCli's default.
func OpenACL() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// Create makes a znode and returns its real path. Nil data is null.
func (c Client) Create(ctx context.Context, path string, data []byte, acl []zk.ACL, mode CreateMode) (string, error) {
	op, flags, err := mode.flags()
	if err != nil {
		return "", err
	}
	encode := func(e *jute.Encoder, p string) {
		encodeCreate(e, p, &zk.CreateRequest{Data: data, Acl: acl, Flags: flags})
		if op == jute.OpCreateTTL {
			e.Long(mode.TTL.Milliseconds())
		}
	}
	hook := func(l *link, _ string, r *reply) {
		if r.code == OK && mode.Ephemeral {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ephemerals[jute.NewDecoder(r.body).String()] = struct{}{}
		}
	}
	d, l, err := c.do(ctx, request{op: op, path: path, write: true, sequential: mode.Sequential, encode: encode, hook: hook})
	if err != nil {
		return "", err
	}
	made := d.String()
	return c.clientPath(l, made), d.Err()
}

// Delete removes a znode if it has the version; -1 is any.
func (c Client) Delete(ctx context.Context, path string, version int32) error {
	_, _, err := c.do(ctx, request{op: jute.OpDelete, path: path, write: true, encode: encodeDelete(version), hook: forgetEphemeral})
	return err
}

func encodeDelete(version int32) func(*jute.Encoder, string) {
	return func(e *jute.Encoder, p string) {
		e.String(p)
		e.Int(version)
	}
}

func forgetEphemeral(l *link, path string, r *reply) {
	if r.code == OK || r.code == NoNode { // or gone before: the answer to an earlier delete was lost
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ephemerals, path)
	}
}

// Set writes a znode's data if it has the version; -1 is any.
func (c Client) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	encode := func(e *jute.Encoder, p string) {
		e.String(p)
		e.Buffer(data)
		e.Int(version)
	}
	d, _, err := c.do(ctx, request{op: jute.OpSetData, path: path, write: true, encode: encode})
	if err != nil {
		return nil, err
	}
	return readStat(d), d.Err()
}

// SetACL writes a znode's access control list if its ACL has the version; -1 is any.
func (c Client) SetACL(ctx context.Context, path string, acl []zk.ACL, version int32) (*zk.Stat, error) {
	d, _, err := c.do(ctx, request{op: jute.OpSetACL, path: path, write: true, encode: encodeSetACL(acl, version)})
	if err != nil {
		return nil, err
	}
	return readStat(d), d.Err()
}

func encodeSetACL(acl []zk.ACL, version int32) func(*jute.Encoder, string) {
	return func(e *jute.Encoder, p string) {
		e.String(p)
		writeACL(e, acl)
		e.Int(version)
	}
}

// WatcherType says which watches RemoveWatches removes.
type WatcherType int32

// The values of Watcher.WatcherType; the persistent ones need a 3.9 server.
const (
	ChildrenWatches   WatcherType = 1
	DataWatches       WatcherType = 2
	AnyWatches        WatcherType = 3
	PersistentWatches WatcherType = 4
	RecursiveWatches  WatcherType = 5
)

// kinds are the watches a type covers, with the event each removal shows.
func (t WatcherType) kinds() []WatchKind {
	switch t {
	case ChildrenWatches:
		return []WatchKind{ChildWatch, PersistentWatch, RecursiveWatch}
	case DataWatches:
		return []WatchKind{DataWatch, ExistWatch, PersistentWatch, RecursiveWatch}
	case PersistentWatches:
		return []WatchKind{PersistentWatch}
	case RecursiveWatches:
		return []WatchKind{RecursiveWatch}
	}
	return []WatchKind{ChildWatch, DataWatch, ExistWatch, PersistentWatch, RecursiveWatch}
}

// RemoveWatches removes the session's watches on a path; each kind that was
// there shows as an event. With local they are forgotten here even when no
// server can be reached. The error is NoWatcher when there is none.
func (c Client) RemoveWatches(ctx context.Context, path string, t WatcherType, local bool) error {
	if err := ValidatePath(path, false); err != nil {
		return err
	}
	l := c.s.current()
	server := c.serverPath(l, path)
	if !l.watching(server, t) {
		return &Error{NoWatcher, path}
	}
	encode := func(e *jute.Encoder, p string) {
		e.String(p)
		e.Int(int32(t))
	}
	hook := func(l *link, p string, r *reply) {
		if r.code == OK {
			l.forgetWatches(p, t, SyncConnected)
		}
	}
	_, _, err := c.do(ctx, request{op: jute.OpRemoveWatches, path: path, write: true, encode: encode, hook: hook})
	if local && errors.Is(err, ConnectionLoss) {
		l.forgetWatches(server, t, Disconnected)
		return nil
	}
	return err
}

func (l *link) watching(path string, t WatcherType) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range t.kinds() {
		if _, ok := l.watches[k][path]; ok {
			return true
		}
	}
	return false
}

// removedEvents is the event each kind of removed watch shows, in the order in
// which the Java client sends them.
var removedEvents = map[WatchKind]EventType{
	ChildWatch:      EventChildWatchRemoved,
	DataWatch:       EventDataWatchRemoved,
	ExistWatch:      EventDataWatchRemoved,
	PersistentWatch: EventPersistentWatchRemoved,
	RecursiveWatch:  EventPersistentWatchRemoved,
}

func (l *link) forgetWatches(path string, t WatcherType, state KeeperState) {
	l.mu.Lock()
	had := l.watches.remove(path, t.kinds()...)
	l.wakes.fire(path, t.kinds()...) // the server has dropped the quiet watches with the user's
	client := l.clientPath(path)
	l.mu.Unlock()
	seen := map[EventType]bool{}
	for _, k := range had {
		if e := removedEvents[k]; !seen[e] {
			seen[e] = true
			l.emit(Event{Type: e, State: state, Path: client})
		}
	}
}
