package zkconn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/zksh/zksh/internal/jute"
)

// pathSet is a set of server paths.
type pathSet map[string]struct{}

// link is one client of one ensemble, from connect to close: the library's Conn
// and what it lacks. It lives through reconnects and, after an expiry, goes on
// with a new session of the same ensemble.
type link struct {
	cfg     Config // what was asked for
	servers Servers
	root    chroot
	out     *eventQueue // of events, in the order in which mu was held

	hosts    *hosts
	conn     *zk.Conn
	events   <-chan zk.Event // not read: emit has them all; closed when the library's goroutines have ended
	ctx      context.Context // of dialing
	cancel   context.CancelFunc
	shutOnce sync.Once
	ended    chan struct{}

	// These are for failover.go.
	guards atomic.Int32
	tied   atomic.Bool   // the ensemble is known to end a session with its connection
	rtt    atomic.Int64  // how long an answer takes, smoothed, in nanoseconds
	moving chan struct{} // capacity 1, full while another server is tried
	spare  *frameConn    // what the library's next dialing gets; who has filled moving may touch it

	relying  atomic.Int32 // open transactions
	awaiting atomic.Int32 // requests that wait for a connection

	mu         sync.Mutex
	changed    chan struct{} // closed, and made anew, at each change below
	state      State
	cur        *frameConn // nil while disconnected
	id         int64
	passwd     []byte        // the session's, in memory only
	epoch      epoch         // grows with each session that ends
	over       chan struct{} // closed when the session is over; then made anew for the next
	timeout    time.Duration // negotiated, or asked
	lastSent   time.Time     // when the latest answered request was sent
	lastZxid   int64
	passes     int            // passes over the server list that found none, counted once a second at most
	givenUp    *NoServerError // of the request that has found no server, with Config.WaitOnce
	counted    time.Time      // when passes was increased since the last connection; zero if it was not
	attempts   []AttemptError // of the pass under way, or of the last one
	failed     []AttemptError // of the last whole pass
	unreached  error          // the first failed pass since there was a connection, until somebody takes it
	searching  bool           // there was such a pass
	refusals   int            // connect replies without a session since anything was answered
	creds      []Credential
	refused    error // why the session ended, if it was neither closed nor expired: a credential, or too many events
	watches    watchTable
	ephemerals pathSet

	noContainers bool           // a server of the ensemble does not know them
	hangUps      map[int32]int  // trials over which servers hung up; see trial.go
	claimed      map[int32]bool // those that a ZooKeeper says it knows
	hungUpBy     string         // the latest to do so, and how
}

func newLink(servers Servers, cfg Config, out *eventQueue) (*link, error) {
	l := &link{
		cfg: cfg, servers: servers, root: chroot(servers.Chroot), out: out,
		changed: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), creds: slices.Clone(cfg.Auth),
		state: StateConnecting, timeout: cfg.Timeout, ephemerals: pathSet{}, watches: watchTable{},
		passwd: noPasswd, moving: make(chan struct{}, 1),
	}
	if cfg.dial == nil {
		l.cfg.dial = new(net.Dialer).DialContext
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.hosts = newHosts(l.ctx, cfg.Timeout, servers.Hosts, l.passFailed, l.urgent)
	l.mu.Lock() // a connection may end the link before Connect has returned
	defer l.mu.Unlock()
	conn, events, err := zk.Connect(servers.Hosts, cfg.Timeout,
		zk.WithDialer(l.dial), zk.WithHostProvider(l.hosts),
		zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false)) // what it logs reaches us as errors
	if err != nil {
		l.cancel()
		return nil, fmt.Errorf("server %q: %w", servers.Spec, err)
	}
	l.conn, l.events = conn, events
	return l, nil
}

// patience is how long a write or an answer may take before the connection
// counts as dead: two thirds of the session timeout, as in every client.
func (l *link) patience() time.Duration {
	return l.bounded(look(l, func() time.Duration { return l.timeout })) * 2 / 3
}

// usualMinimum is longer than the minimum of the session timeout that servers have unless
// somebody raised it: 4 s on ZooKeeper, 10 s on ClickHouse Keeper.
const usualMinimum = 20 * time.Second

// bounded is how long zksh waits for a server that grants a session timeout: no longer than
// the user asked for, or than a server's usual minimum. A server can grant 24 days.
func (l *link) bounded(timeout time.Duration) time.Duration {
	return min(timeout, max(l.cfg.Timeout, usualMinimum))
}

// look reads something of a link under its lock.
func look[T any](l *link, read func() T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return read()
}

// endSession tells all that are pinned to the session; once. Called with mu held.
func (l *link) endSession() {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// end leaves the link for good, in this state. Called with mu held.
func (l *link) end(s State) {
	l.state = s
	l.creds = nil
	l.cancel()
	l.endSession()
	l.notify()
}

// notify is called with mu held.
func (l *link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wake is notify for who does not have mu.
func (l *link) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify()
}

// established runs when a connect reply was good, before the library knows.
func (l *link) established(k *frameConn, w welcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != StateConnecting {
		return
	}
	l.replaced(w)
	l.id, l.passwd, l.timeout = w.id, w.passwd, w.timeout
	l.lastSent = k.asked
	l.sample(time.Since(k.asked))
	l.attempts, l.unreached, l.searching, l.counted = nil, nil, false, time.Time{}
	k.send(l.restore()...) // before anybody else's requests
	if k.died() {
		return
	}
	l.state = StateConnected
	event := Event{Type: eventNone, State: syncConnected}
	if w.readOnly {
		l.state, event.State = StateConnectedReadOnly, connectedReadOnly
	}
	l.cur = k
	l.notify()
	l.out.put(event)
}

// lost runs when a connection has ended.
func (l *link) lost(k *frameConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != k {
		return
	}
	l.cur = nil
	l.notify()
	if l.state != StateClosed && l.state != StateAuthFailed {
		l.state = StateConnecting
		l.out.put(Event{Type: eventNone, State: disconnected})
	}
}

// contact runs when a request or a ping that was sent then has been answered, at
// this zxid, if it was told.
func (l *link) contact(sent time.Time, zxid int64) {
	if !sent.IsZero() {
		l.sample(time.Since(sent))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals = 0
	l.lastZxid = max(l.lastZxid, zxid)
	if sent.After(l.lastSent) {
		l.lastSent = sent
	}
}

// nodeEvent passes a watch event on to the user, if they watch the znode. Like Java's
// client, zksh drops an event that no watch asked for. Older servers do not send the zxid
// of the transaction. The error is that of a connection to be given up.
func (l *link) nodeEvent(t EventType, path string, zxid int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := l.watches.seen(t, path)
	l.watches.fire(t, path, usedUp[t]...)
	if t == eventNodeDeleted {
		delete(l.ephemerals, path)
	}
	if !seen {
		return nil
	}
	state := syncConnected
	if l.state == StateConnectedReadOnly {
		state = connectedReadOnly
	}
	if l.out.put(Event{Type: t, State: state, Path: l.root.client(path), Zxid: max(zxid, 0)}) {
		return nil
	}
	return l.overflowed()
}

// overflowed ends the link when nobody takes the events of the user's watches: to drop
// some would hide changes from them. Called with mu held.
func (l *link) overflowed() error {
	if l.refused == nil {
		l.refused = errOverflow
	}
	if l.state != StateClosed && l.state != StateAuthFailed {
		l.end(StateClosed)
		l.out.put(Event{Type: eventNone, State: eventClosed})
		l.shut()
	}
	return fault(errOverflow.Error())
}

// shut ends the library's connection, once, and returns a channel that is closed
// when all its goroutines have ended.
func (l *link) shut() <-chan struct{} {
	l.shutOnce.Do(func() {
		go func() { // the library bounds its Close by a second; what still reads ends with the connection
			defer close(l.ended)
			l.conn.Close()
			l.mu.Lock()
			k := l.cur
			l.mu.Unlock()
			if k != nil {
				k.Close()
			}
			for range l.events { // closed by the library at its end
			}
		}()
	})
	return l.ended
}

// stop closes the session and the connection, and waits for both until ctx ends.
// While no server is there no session can be closed, and nothing is waited for:
// the library's goroutines end by themselves within a second.
func (l *link) stop(ctx context.Context) error {
	l.mu.Lock()
	was := l.state
	if was == StateClosed {
		l.mu.Unlock()
		return nil
	}
	l.end(StateClosed)
	l.mu.Unlock()

	ended := l.shut()
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
	if was == StateConnected || was == StateConnectedReadOnly {
		l.out.put(Event{Type: eventNone, State: eventClosed})
	}
	return err
}

// Credential authenticates a session by one of ZooKeeper's schemes.
type Credential struct {
	Scheme string
	Auth   []byte // nil: none given
}

func (c Credential) is(o Credential) bool { return o.Scheme == c.Scheme && bytes.Equal(o.Auth, c.Auth) }

// refused is the error of a credential that the server did not accept, which ends
// the session. What was asked for behind the credential was not carried out.
func refused(scheme string) error {
	return fmt.Errorf("%w: the server rejected the credentials of scheme %q and ended the session; to start another session, run: connect",
		AuthFailed, scheme)
}

// addAuth authenticates the session. A credential that was accepted is kept for
// the next connection.
func addAuth(c Credential) op[struct{}] {
	return op[struct{}]{
		code: jute.OpAuth, decode: (*answer).nothing,
		encode: func(e *jute.Encoder, _ chroot) {
			e.Int(0)
			e.String(c.Scheme)
			e.Buffer(c.Auth)
		},
		effect: func(l *link, a *answer) {
			known := slices.ContainsFunc(l.creds, c.is)
			switch {
			case a.code == codeOK && !known:
				l.creds = append(l.creds, c)
			case a.code != codeOK && known: // sent by restore, so that nobody has its answer
				l.refused = refused(c.Scheme)
				fallthrough
			case a.code != codeOK:
				l.authFailed()
			}
		},
	}
}

// gone is why the link has ended, or nil. Called with mu held.
func (l *link) gone() error {
	switch {
	case l.refused != nil:
		return l.refused
	case l.state == StateClosed || l.state == StateAuthFailed:
		return ErrNotConnected
	}
	return nil
}

// authFailed ends the link: a server that refuses credentials drops the
// connection, and would again. Called with mu held.
func (l *link) authFailed() {
	if l.state == StateClosed || l.state == StateAuthFailed {
		return
	}
	l.end(StateAuthFailed)
	l.out.put(Event{Type: eventNone, State: eventAuthFailed})
	l.shut()
}
