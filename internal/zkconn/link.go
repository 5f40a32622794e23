package zkconn

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// pathSet is a set of server paths.
type pathSet map[string]struct{}

// link is one client of one ensemble, from connect to close: its connection, and the books
// of what the server keeps for its session. It lives through reconnects and, after an expiry,
// goes on with a new session of the same ensemble.
type link struct {
	cfg     Config // what was asked for
	servers Servers
	root    chroot
	out     *eventQueue
	wire    *wire.Link

	relying  atomic.Int32 // open transactions
	awaiting atomic.Int32 // requests that wait for a connection

	mu         sync.Mutex     // whoever holds it must not take the lock of wire, which calls Connected and others under its own
	givenUp    *NoServerError // of the request that has found no server, with Config.WaitOnce
	unreached  error          // the first failed pass since there was a connection, until somebody takes it
	readOnly   bool           // so is the latest connection
	creds      []Credential
	watches    watchTable
	ephemerals pathSet
	standing   standing

	noContainers bool           // a server of the ensemble does not know them
	hangUps      map[int32]int  // trials over which servers hung up; see lacks.go
	claimed      map[int32]bool // those that a ZooKeeper says it knows
	hungUpBy     string         // the latest to do so, and how
}

var _ wire.Handler = (*link)(nil)

func newLink(servers Servers, cfg Config, out *eventQueue) (*link, error) {
	l := &link{
		cfg: cfg, servers: servers, root: chroot(servers.Chroot), out: out,
		creds: slices.Clone(cfg.Auth), ephemerals: pathSet{}, watches: watchTable{},
	}
	l.wire = wire.New(wire.Config{
		Hosts: servers.Hosts, Timeout: cfg.Timeout, ReadOnly: cfg.ReadOnly, MaxRequest: cfg.MaxRequest, Secure: cfg.Secure,
		Memory: cfg.waiting, Refusal: func(code int32) error { return Code(code) }, Dial: cfg.dial, Tap: cfg.tap,
	}, l)
	if err := l.wire.Connect(); err != nil {
		return nil, fmt.Errorf("server %q: %w", servers.Spec, err)
	}
	return l, nil
}

// look reads something of a link under its lock.
func look[T any](l *link, read func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return read()
}

// Connected sends what the server of a new connection must know first.
func (l *link) Connected(k *wire.Conn, zxid int64) []*wire.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreached, l.readOnly = nil, k.ReadOnly
	first := l.restore(target{k, l, ""}, zxid)
	l.out.put(Event{Type: eventNone, State: l.keeperState()})
	return first
}

// keeperState is that of events while there is a connection. Called with mu held.
func (l *link) keeperState() KeeperState {
	if l.readOnly {
		return connectedReadOnly
	}
	return syncConnected
}

// Disconnected shows as an event.
func (l *link) Disconnected() {
	l.out.put(Event{Type: eventNone, State: disconnected})
}

// Expired closes the books of a session that is over.
func (l *link) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.root.clients(slices.Sorted(maps.Keys(l.ephemerals)))
	l.watches, l.ephemerals = watchTable{}, pathSet{}
	l.out.put(Event{Type: eventNone, State: Expired, Gone: gone})
}

// Failed shows as an event.
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

// Unreachable keeps the error for Session.Unreached.
func (l *link) Unreachable(tried []wire.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreached = &NoServerError{Attempts: tried}
	l.out.wake()
}

// Event passes a watch event on to the user, if they watch the znode. Like Java's
// client, zksh drops an event that no watch asked for. Older servers do not send the zxid
// of the transaction. The error is that of a user who takes no events: to drop some would
// hide changes from them.
func (l *link) Event(typ int32, path string, zxid int64) error {
	t := cmp.Or(eventTypes[typ], EventType(strconv.Itoa(int(typ))))
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

// Relies reports whether something depends on the session, or waits for a connection.
func (l *link) Relies() bool {
	return l.relying.Load() > 0 || l.awaiting.Load() > 0 ||
		look(l, func() bool { return len(l.ephemerals) > 0 || len(l.watches) > 0 })
}

// stop closes the session and the connection, and waits for both until ctx ends.
// While no server is there no session can be closed, and nothing is waited for.
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
		case <-ended: // as well, and seen late
		default:
			err = fmt.Errorf("closing the session: %w", ctx.Err())
		}
	}
	if was != StateAuthFailed {
		l.out.put(Event{Type: eventNone, State: eventClosed})
	}
	return err
}

// stateOf returns the state as the prompt shows it.
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

// gone is the error of a link that has ended, or nil.
func gone(s wire.Status) error {
	switch {
	case s.Ending == nil:
		return nil
	case s.Ending.Why != nil:
		return s.Ending.Why
	}
	return ErrNotConnected
}
