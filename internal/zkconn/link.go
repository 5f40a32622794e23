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

// A link is the client of one ensemble from connect to close: its connection, and a record of
// what the server keeps for the session (watches, ephemeral znodes, credentials). It survives
// reconnects, and continues with a new session of the same ensemble after an expiry.
type link struct {
	cfg     Config
	servers Servers
	root    chroot
	out     *eventQueue
	wire    *wire.Link

	relying  atomic.Int32 // open transactions
	awaiting atomic.Int32 // requests that wait for a connection

	mu         sync.Mutex     // must not be held while calling wire: wire calls the Handler methods with its own lock held
	givenUp    *NoServerError // final error of all requests, with Config.WaitOnce; nil until a request gave up
	unreached  error          // for Session.Unreached; nil if there is none
	readOnly   bool           // the latest connection is read-only
	creds      []Credential
	watches    watchTable
	ephemerals pathSet
	standing   standing

	noContainers bool           // a server of the ensemble does not support containers
	hangUps      map[int32]int  // number of trials over which servers hung up, by opcode; see lacks.go
	claimed      map[int32]bool // opcodes that a server claims to support by its version
	hungUpBy     string         // the latest server that hung up, and how, for messages
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

// underLock calls read with the link's lock held, and returns its result.
func underLock[T any](l *link, read func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return read()
}

// Connected returns the first requests on a new connection: credentials and watches.
func (l *link) Connected(k *wire.Conn, zxid int64) []*wire.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreached, l.readOnly = nil, k.ReadOnly
	first := l.restore(target{k, l, ""}, zxid)
	l.out.put(Event{Type: eventNone, State: l.keeperState()})
	return first
}

// keeperState returns the state of events while there is a connection. Called with mu held.
func (l *link) keeperState() KeeperState {
	if l.readOnly {
		return connectedReadOnly
	}
	return syncConnected
}

// Disconnected adds an event.
func (l *link) Disconnected() {
	l.out.put(Event{Type: eventNone, State: disconnected})
}

// Expired clears the record of a session that is over, and adds an event.
func (l *link) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.root.clients(slices.Sorted(maps.Keys(l.ephemerals)))
	l.watches, l.ephemerals = watchTable{}, pathSet{}
	l.out.put(Event{Type: eventNone, State: Expired, Gone: gone})
}

// Failed drops the credentials and adds an event.
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

// Event adds a watch event to the Session's Events if the user watches the znode. Like the Java
// client, zksh drops an event that no watch asked for. Servers before 3.9 send no zxid. Event
// returns an error if too many events are waiting: dropping one would hide a change.
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

// Relies reports whether something depends on the session, or a request waits for a connection.
func (l *link) Relies() bool {
	return l.relying.Load() > 0 || l.awaiting.Load() > 0 ||
		underLock(l, func() bool { return len(l.ephemerals) > 0 || len(l.watches) > 0 })
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
