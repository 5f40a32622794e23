package zkconn

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// State is the state of a connection as the prompt shows it.
type State string

// The states of ZooKeeper.States that can be seen here.
const (
	StateConnecting        State = "CONNECTING"
	StateConnected         State = "CONNECTED"
	StateConnectedReadOnly State = "CONNECTEDREADONLY"
	StateClosed            State = "CLOSED"
	StateAuthFailed        State = "AUTH_FAILED"
)

type credential struct {
	scheme string
	auth   []byte // nil: none given
}

// link is one client of one ensemble, from connect to close: the library's Conn
// and what it lacks. It lives through reconnects and, after an expiry, goes on
// with a new session of the same ensemble.
type link struct {
	servers  Servers
	asked    time.Duration // session timeout asked for
	readOnly bool
	emit     func(Event)

	hosts    *hosts
	conn     *zk.Conn
	events   <-chan zk.Event // not read: emit has them all; closed when the library's goroutines have ended
	ctx      context.Context // of dialing
	cancel   context.CancelFunc
	shutOnce sync.Once
	ended    chan struct{}

	mu         sync.Mutex
	changed    chan struct{} // closed, and made anew, at each change below
	state      State
	cur        *frameConn // nil while disconnected
	id         int64
	gen        int           // expiries so far
	over       chan struct{} // closed when the session is over; then made anew for the next
	timeout    time.Duration // negotiated, or asked
	helloSent  time.Time     // when the last connect request was sent
	lastSent   time.Time     // when the latest answered request was sent
	lastZxid   int64
	passes     int            // passes over the server list that found none
	attempts   []AttemptError // of the pass under way, or of the last one
	failed     []AttemptError // of the last whole pass
	creds      []credential
	watches    watchTable
	ephemerals pathSet // server paths
	wakes      wakeTable
}

func newLink(servers Servers, cfg Config, emit func(Event)) (*link, error) {
	l := &link{
		servers: servers, asked: cfg.Timeout, readOnly: cfg.ReadOnly, emit: emit,
		changed: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}),
		state: StateConnecting, timeout: cfg.Timeout, ephemerals: pathSet{}, wakes: wakeTable{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.hosts = newHosts(l.ctx, cfg.Timeout, servers.Hosts, l.passFailed)
	conn, events, err := zk.Connect(servers.Hosts, cfg.Timeout,
		options(zk.WithDialer(l.dial), zk.WithHostProvider(l.hosts),
			zk.WithLogger(silent{}), zk.WithLogInfo(false))...)
	if err != nil {
		l.cancel()
		return nil, fmt.Errorf("server %q: %w", servers.Spec, err)
	}
	l.conn, l.events = conn, events
	return l, nil
}

// options makes a slice of the library's option type, which it does not export.
func options[T any](o ...T) []T { return o }

// silent drops the library's log lines; what they report reaches us as errors.
type silent struct{}

func (silent) Printf(string, ...any) {}

// patience is how long a write or an answer may take before the connection
// counts as dead: two thirds of the session timeout, as in every client.
func (l *link) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeout * 2 / 3
}

// dial connects for the library, with our own deadline for all that comes before
// the session is there.
func (l *link) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	deadline := time.Now().Add(l.hosts.attempt(l.asked))
	d := net.Dialer{Deadline: deadline}
	c, err := d.DialContext(l.ctx, network, addr)
	if err != nil {
		l.attemptFailed(addr, plainCause(err))
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, err
	}
	k := newFrameConn(c, addr, l)
	k.unbind = context.AfterFunc(l.ctx, func() { c.Close() }) // until the session is there
	return k, nil
}

// endSession tells all that are pinned to the session; once. Called with mu held.
func (l *link) endSession() {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
}

// notify is called with mu held.
func (l *link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) attemptFailed(addr string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = slices.DeleteFunc(l.attempts, func(a AttemptError) bool { return a.Addr == addr })
	l.attempts = append(l.attempts, AttemptError{addr, cause})
}

func (l *link) passFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes++
	l.failed, l.attempts = l.attempts, nil
	l.notify()
}

// connectRequest completes the library's: the highest zxid seen by either of us,
// and the read-only wish, which it does not know.
func (l *link) connectRequest(p []byte) []byte {
	l.mu.Lock()
	zxid := l.lastZxid
	l.helloSent = time.Now()
	l.mu.Unlock()
	q := append([]byte(nil), p...)
	// frame length, protocol version int32, lastZxidSeen int64, timeout int32, …
	if uint64(zxid) > binary.BigEndian.Uint64(q[8:]) {
		binary.BigEndian.PutUint64(q[8:], uint64(zxid))
	}
	ro := byte(0)
	if l.readOnly {
		ro = 1
	}
	q = append(q, ro)
	binary.BigEndian.PutUint32(q, uint32(len(q)-4))
	return q
}

// established runs when a connect reply was good, before the library knows.
func (l *link) established(k *frameConn, id int64, timeout time.Duration, readOnly bool) {
	l.mu.Lock()
	if l.state == StateClosed || l.state == StateAuthFailed {
		l.mu.Unlock()
		return
	}
	l.id, l.timeout = id, timeout
	l.lastSent = l.helloSent
	l.attempts = nil
	first := l.restore()
	l.mu.Unlock()
	k.send(first...) // before anybody else's requests

	l.mu.Lock()
	if k.died() || l.state != StateConnecting {
		l.mu.Unlock()
		return
	}
	l.state = StateConnected
	event := Event{Type: EventNone, State: SyncConnected}
	if readOnly {
		l.state, event.State = StateConnectedReadOnly, ConnectedReadOnly
	}
	l.cur = k
	l.notify()
	l.mu.Unlock()
	l.emit(event)
}

// restore makes the requests that give a connection what the one before had:
// credentials, then watches. Called with mu held.
func (l *link) restore() []*call {
	var calls []*call
	for _, c := range l.creds {
		calls = append(calls, l.authCall(c))
	}
	return append(calls, l.watches.with(l.wakes.awaited()).requests(l.lastZxid)...)
}

func (l *link) authCall(c credential) *call {
	var e jute.Encoder
	e.Int(0)
	e.String(c.scheme)
	e.Buffer(c.auth)
	return &call{op: jute.OpAuth, body: e.B, done: make(chan reply, 1), hook: func(r *reply) {
		if r.code != OK {
			l.authFailed()
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		known := func(o credential) bool { return o.scheme == c.scheme && bytes.Equal(o.auth, c.auth) }
		if !slices.ContainsFunc(l.creds, known) {
			l.creds = append(l.creds, c)
		}
	}}
}

// authFailed ends the link: a server that refuses credentials drops the
// connection, and would again.
func (l *link) authFailed() {
	l.mu.Lock()
	if l.state == StateClosed || l.state == StateAuthFailed {
		l.mu.Unlock()
		return
	}
	l.state = StateAuthFailed
	l.creds = nil
	l.cancel()
	l.endSession()
	l.notify()
	l.mu.Unlock()
	l.emit(Event{Type: EventNone, State: EventAuthFailed})
	l.shut()
}

// expired runs when the server no longer knows the session.
func (l *link) expired() {
	l.mu.Lock()
	gone := l.clientPaths(slices.Sorted(maps.Keys(l.ephemerals)))
	l.watches.clear()
	l.ephemerals, l.wakes = pathSet{}, wakeTable{}
	l.id, l.lastZxid = 0, 0
	l.gen++ // whoever waits for the old session must not go on in the new one
	l.endSession()
	l.over = make(chan struct{})
	l.notify()
	l.mu.Unlock()
	l.hosts.reset() // a server was there: the search for one starts afresh
	l.emit(Event{Type: EventNone, State: Expired, Gone: gone})
}

// lost runs when a connection has ended.
func (l *link) lost(k *frameConn) {
	l.mu.Lock()
	if l.cur != k {
		l.mu.Unlock()
		return
	}
	l.cur = nil
	over := l.state == StateClosed || l.state == StateAuthFailed
	if !over {
		l.state = StateConnecting
	}
	l.notify()
	l.mu.Unlock()
	if !over {
		l.emit(Event{Type: EventNone, State: Disconnected})
	}
}

func (l *link) contact(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent.After(l.lastSent) {
		l.lastSent = sent
	}
}

func (l *link) sawZxid(z int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastZxid = max(l.lastZxid, z)
}

// nodeEvent passes a watch event on. Its state field is not used: a server
// always sends SyncConnected.
func (l *link) nodeEvent(t EventType, _ int32, path string) {
	l.mu.Lock()
	quiet := l.wakes.fire(path, t.uses()...) && !l.watches.sees(t, path)
	l.watches.fired(t, path)
	if t == EventNodeDeleted {
		delete(l.ephemerals, path)
	}
	state := SyncConnected
	if l.state == StateConnectedReadOnly {
		state = ConnectedReadOnly
	}
	client := l.clientPath(path)
	l.mu.Unlock()
	if !quiet {
		l.emit(Event{Type: t, State: state, Path: client})
	}
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
	l.state = StateClosed
	l.creds = nil
	l.cancel()
	l.endSession()
	l.notify()
	l.mu.Unlock()

	ended := l.shut()
	if was == StateConnecting {
		return nil
	}
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = fmt.Errorf("closing the session: %w", ctx.Err())
	}
	if was == StateConnected || was == StateConnectedReadOnly {
		l.emit(Event{Type: EventNone, State: EventClosed})
	}
	return err
}
