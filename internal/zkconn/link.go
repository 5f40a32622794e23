package zkconn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// pathSet is a set of znode paths that include the chroot.
type pathSet map[string]struct{}

// A link is the client of one ensemble from connect to close. It contains the connection, and a
// record of the session's state on the server (watches, ephemeral znodes, credentials). A link
// remains usable after a reconnect. After a session has expired, it continues with a new session on
// the same ensemble.
type link struct {
	cfg     Config
	servers Servers
	root    chroot
	out     *eventQueue
	wire    *wire.Link

	relying  atomic.Int32 // number of open transactions
	awaiting atomic.Int32 // number of requests that wait for a connection

	mu         sync.Mutex     // guards the fields below; may be locked while the wire.Link's lock is held, but not vice versa
	givenUp    *NoServerError // error of all later requests after one has given up (see Config.WaitOnce); nil until then
	unreached  error          // next result of Session.Unreached; may be nil
	readOnly   bool           // whether the server of the latest connection is read-only
	creds      []Credential
	watches    watchTable
	ephemerals pathSet
	standing   standing

	noContainers bool           // whether a server of the ensemble does not support containers
	hangUps      map[int32]int  // number of failed trials in a row, by opcode; see lacks.go
	claimed      map[int32]bool // opcodes that a server claims to support, according to its version
	hungUpBy     string         // start of a message about the latest failed trial: the server and its reaction
}

var _ wire.Handler = (*link)(nil)

func newLink(servers Servers, cfg Config, out *eventQueue, tracing *wire.Tracing) (*link, error) {
	l := &link{
		cfg: cfg, servers: servers, root: chroot(servers.Chroot), out: out,
		creds: slices.Clone(cfg.Auth), ephemerals: pathSet{}, watches: watchTable{},
	}
	through, err := proxyOf(cfg.Proxy)
	if err != nil {
		return nil, err
	}
	l.wire = wire.New(wire.Config{
		Proxy: through,
		Hosts: servers.Hosts, Timeout: cfg.Timeout, ReadOnly: cfg.ReadOnly, MaxRequest: cfg.MaxRequest, Secure: cfg.Secure,
		Memory: cfg.waiting, Tracing: tracing, Refusal: func(code int32) error { return Code(code) }, Dial: cfg.dial,
	}, l)
	if err := l.wire.Connect(); err != nil {
		return nil, fmt.Errorf("server %q: %w", servers.Spec, err)
	}
	return l, nil
}

// underLock calls the function read while it holds the link's lock, and returns the result.
func underLock[T any](l *link, read func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return read()
}

// Connected implements wire.Handler. It returns the first requests on a new connection, which
// send the session's credentials and watches again.
func (l *link) Connected(k *wire.Conn, zxid int64) []*wire.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreached, l.readOnly = nil, k.ReadOnly
	first := l.restore(target{k, l, ""}, zxid)
	l.out.put(Event{Type: eventNone, State: l.keeperState()})
	return first
}

// keeperState returns the KeeperState for events that occur while the link is connected. The caller
// must hold mu.
func (l *link) keeperState() KeeperState {
	if l.readOnly {
		return connectedReadOnly
	}
	return syncConnected
}

// Disconnected implements wire.Handler. It adds an event to the Session's Events.
func (l *link) Disconnected() {
	l.out.put(Event{Type: eventNone, State: disconnected})
}

// Expired implements wire.Handler. It clears the link's records of the expired session, and adds an
// event that lists the session's ephemeral znodes.
func (l *link) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.root.clients(slices.Sorted(maps.Keys(l.ephemerals)))
	l.watches, l.ephemerals = watchTable{}, pathSet{}
	l.out.put(Event{Type: eventNone, State: Expired, Gone: gone})
}

// Failed implements wire.Handler. It deletes the saved credentials, and adds an event to the
// Session's Events.
func (l *link) Failed(e wire.Ending) {
	l.forgetCreds()
	state := eventClosed
	if e.AuthFailed {
		state = eventAuthFailed
	}
	l.out.put(Event{Type: eventNone, State: state})
}

func (l *link) forgetCreds() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.creds = nil
}

// Unreachable implements wire.Handler. It saves the error for Session.Unreached.
func (l *link) Unreachable(tried []wire.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreached = &NoServerError{Attempts: tried}
	l.out.wake()
}

// Event implements wire.Handler. It adds a watch event to the Session's Events if the user
// watches the znode. Like the Java client, zksh drops an event for which there is no watch. zxid
// is 0 or negative if the server did not send one, as is usual before ZooKeeper 3.9. If too many
// events are waiting, Event returns an error, because a dropped event would hide a change.
func (l *link) Event(typ int32, path string, zxid int64) error {
	t := EventTypeOf(typ)
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.watches.seen(t, path)
	l.watches.fire(t, path, usedUp[t]...)
	if t == eventNodeDeleted {
		delete(l.ephemerals, path)
	}
	if seen && !l.out.put(Event{Type: t, State: l.keeperState(), Path: l.root.client(path), Zxid: max(zxid, 0)}) {
		return errOverflow
	}
	return nil
}

// Relies implements wire.Handler. It reports whether watches, ephemeral znodes or transactions
// depend on the session, or a request waits for a connection.
func (l *link) Relies() bool {
	return l.relying.Load() > 0 || l.awaiting.Load() > 0 ||
		underLock(l, func() bool { return len(l.ephemerals) > 0 || len(l.watches) > 0 })
}

// stop closes the session and the connection, and waits until both are closed or ctx ends. If there
// is no connection, it does not wait, because it cannot close the session on the server.
func (l *link) stop(ctx context.Context) error {
	status, ended := l.wire.Close()
	was := stateOf(status)
	if was == StateClosed {
		return nil
	}
	l.forgetCreds()
	if was == StateConnecting {
		return nil
	}
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		select {
		case <-ended: // ended was ready too, but select chose ctx.Done
		default:
			err = fmt.Errorf("closing the session: %w", ctx.Err())
		}
	}
	if was != StateAuthFailed {
		l.out.put(Event{Type: eventNone, State: eventClosed})
	}
	return err
}

// stateOf returns the State for a link with the given Status.
func stateOf(s wire.Status) State {
	switch {
	case s.Ending != nil && s.Ending.AuthFailed:
		return StateAuthFailed
	case s.Ending != nil:
		return StateClosed
	case s.Conn == nil:
		return StateConnecting
	case s.Conn.ReadOnly:
		return StateConnectedReadOnly
	}
	return StateConnected
}

// gone returns the error of requests on a link that has ended, or nil if the link has not ended.
func gone(s wire.Status) error {
	switch {
	case s.Ending == nil:
		return nil
	case s.Ending.Why != nil:
		return s.Ending.Why
	}
	return ErrNotConnected
}
