// Package wire keeps a client connected to a ZooKeeper ensemble. It finds a server, does the
// handshake, sends requests and receives their answers, pings, and moves the session to another
// server when the current one fails. Each request ends as answered, not sent, or sent without an
// answer, and a request that was made for one session never runs in another.
//
// A Link is the client of one ensemble, a Conn is one of its TCP connections, and a Request is sent
// by Conn.Send. The library go-zookeeper maintains the TCP connection and the session. It reads and
// writes through a Conn, which sends our requests between the library's; see library.go.
//
// Begin reading with link.go, send.go and receive.go.
package wire

import (
	"context"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/secure"
)

// Config is how to connect.
type Config struct {
	Hosts      []string      // host:port each
	Timeout    time.Duration // requested session timeout; it also bounds the search for a server
	ReadOnly   bool          // accept a server that lost its quorum
	MaxRequest int           // size of the largest request, in bytes; it can raise the limits for replies
	Secure     secure.Config
	Memory     *Memory                // counts the replies in memory
	Refusal    func(code int32) error // returns the error for an error code of the protocol

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil stands for net.Dialer's
	Tap  func(net.Conn) net.Conn                                           // wraps each connection, above TLS; may be nil
}

// A Handler is notified of what happens to a Link. Methods that are called under the Link's lock
// must not call the Link. No method may block.
type Handler interface {
	// Connected is called when there is a session on a connection. It returns the requests to
	// send before all others. zxid is the latest one that the session has seen. Under the lock.
	Connected(k *Conn, zxid int64) []*Request
	// Disconnected is called when the connection is lost. Under the lock.
	Disconnected()
	// Expired is called when a session is over, with everything that a server kept for it. The
	// next connection begins another session. Under the lock.
	Expired()
	// Failed is called when the Link has ended without Close. Under the lock.
	Failed(e Ending)
	// Unreachable is called when no server of the list can be reached, once between two
	// connections. Under the lock.
	Unreachable(tried []Attempt)

	// Event is called for each watch event; typ is its number in the protocol. If it returns an
	// error, the Link ends.
	Event(typ int32, path string, zxid int64) error
	// HungUp is called when a server hung up over a trial, or did not answer it. It reports
	// whether that may have been an accident.
	HungUp(op int32, server string, cause error) (accident bool)
	// Passed is called when a server has answered a trial with anything but Unimplemented.
	Passed(op int32)
	// Relies reports whether a connection is needed without delay.
	Relies() bool
}

// An Ending is why a Link has ended.
type Ending struct {
	AuthFailed bool
	Why        error // nil after Close, or if the rejected credential's own request gets the error
}

// An Attempt is one failed attempt to connect.
type Attempt struct {
	Addr  string
	Cause error
}

// A Link is the client of one ensemble from connect to close: the library's zk.Conn and what that
// lacks. It survives reconnects, and continues with a new session of the same ensemble after an
// expiry.
type Link struct {
	cfg     Config
	handler Handler

	hosts    *hosts
	library  *zk.Conn
	events   <-chan zk.Event // not used, because the handler gets all events; closed when the library's goroutines have ended
	ctx      context.Context // of dialing
	cancel   context.CancelFunc
	shutOnce sync.Once
	ended    chan struct{}

	// For failover.go.
	guards atomic.Int32
	tied   atomic.Bool   // see Tie
	rtt    atomic.Int64  // smoothed round-trip time, in nanoseconds
	moving chan struct{} // capacity 1; a lock, full while another server is tried
	spare  *Conn         // connection for the library's next dial; guarded by moving

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at each change of the fields below
	ending    *Ending       // nil until the link has ended
	cur       *Conn         // nil while disconnected
	id        int64
	passwd    []byte        // the session's, in memory only
	epoch     Epoch         // incremented when a session ends
	over      chan struct{} // closed when the session is over, and replaced for the next one
	timeout   time.Duration // negotiated; before the first connection, the requested one
	lastSent  time.Time     // when the latest answered request was sent
	lastZxid  int64
	passes    int       // failed passes over the server list, counted once a second at most
	counted   time.Time // when passes was increased since the last connection; zero if it was not
	attempts  []Attempt // of the pass in progress, or of the last one
	failed    []Attempt // of the last whole pass
	searching bool      // a pass has failed since there was a connection
	refusals  int       // connect replies without a session since the last answer to a request or ping
}

// New returns a Link, which does nothing until Connect.
func New(cfg Config, handler Handler) *Link {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	l := &Link{
		cfg: cfg, handler: handler, timeout: cfg.Timeout, passwd: noPasswd,
		changed: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), moving: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.hosts = newHosts(l.ctx, cfg.Timeout, cfg.Hosts, l.passFailed, l.urgent)
	return l
}

// Connect starts to connect and returns at once. It is called once.
func (l *Link) Connect() error {
	l.mu.Lock() // a connection may end the link before the library's Connect has returned
	defer l.mu.Unlock()
	library, events, err := zk.Connect(l.cfg.Hosts, l.cfg.Timeout,
		zk.WithDialer(l.dial), zk.WithHostProvider(l.hosts),
		zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false)) // errors are reported without the log, too
	if err != nil {
		l.cancel()
		return err
	}
	l.library, l.events = library, events
	return nil
}

// A Status is a snapshot of a Link.
type Status struct {
	Conn     *Conn         // nil while disconnected
	Ending   *Ending       // nil until the Link has ended
	ID       int64         // of the session; 0 before the first
	Timeout  time.Duration // of the session: negotiated; before the first connection, asked for
	Patience time.Duration // how long to wait for a server: Timeout, bounded
	Epoch    Epoch
	Over     <-chan struct{} // closed when the session is over
	LastSent time.Time       // when the latest request that was answered had been sent
	Passes   int             // failed passes over the server list, counted once a second at most
	Tried    []Attempt       // of the last whole pass
	Trying   []Attempt       // of the pass in progress
	Changed  <-chan struct{} // closed at the next change of the Status
}

// Status returns the current Status.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status()
}

// status is called with mu held.
func (l *Link) status() Status {
	return Status{
		Conn: l.cur, Ending: l.ending, ID: l.id, Timeout: l.timeout, Patience: l.bounded(l.timeout),
		Epoch: l.epoch, Over: l.over, LastSent: l.lastSent,
		Passes: l.passes, Tried: l.failed, Trying: l.attempts, Changed: l.changed,
	}
}

// Context returns a context that ends with the Link.
func (l *Link) Context() context.Context { return l.ctx }

// Expedite shortens the pause between attempts to connect if Relies has become true.
func (l *Link) Expedite() { l.hosts.expedite() }

// Tie records that the ensemble ends a session with its connection, as ClickHouse Keeper does.
func (l *Link) Tie() { l.tied.Store(true) }

// Tied reports whether the ensemble is known to end a session with its connection.
func (l *Link) Tied() bool { return l.tied.Load() }

// usualMinimum is longer than the default minimum of the session timeout on servers: 4 s on
// ZooKeeper, 10 s on ClickHouse Keeper.
const usualMinimum = 20 * time.Second

// bounded returns how long zksh waits for a server that grants a session timeout: at most the
// requested timeout, or usualMinimum if that is longer. A server can grant 24 days.
func (l *Link) bounded(timeout time.Duration) time.Duration {
	return min(timeout, max(l.cfg.Timeout, usualMinimum))
}

// notify closes Status.Changed. Called with mu held.
func (l *Link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Wake closes Status.Changed without a change, for callers that wait on it for something else.
func (l *Link) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify()
}

// end ends the link for good. Called with mu held.
func (l *Link) end(e Ending) {
	l.ending = &e
	l.cancel()
	l.endSession()
	l.notify()
}

// Fail ends the Link for a reason. If it has already ended without one, Fail sets the reason.
func (l *Link) Fail(e Ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ending == nil:
		l.end(e)
		l.handler.Failed(e)
		l.shut()
	case l.ending.Why == nil:
		l.ending = &Ending{l.ending.AuthFailed, e.Why}
	}
}

// Close ends the Link and its connection, and closes the session on the server if there is a
// connection. It returns the Status from before, and a channel that is closed when everything has
// ended. Without a connection there is no need to wait: the library's goroutines end within a
// second.
func (l *Link) Close() (was Status, ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.status()
	switch {
	case was.Ending == nil:
		l.end(Ending{})
	case was.Ending.AuthFailed:
		l.end(Ending{Why: was.Ending.Why})
	}
	return was, l.shut()
}

// shut ends the library's connection, once, and returns a channel that is closed
// when all its goroutines have ended.
func (l *Link) shut() <-chan struct{} {
	l.shutOnce.Do(func() {
		go func() { // the library's Close takes at most a second; a pending read ends with the connection
			defer close(l.ended)
			l.mu.Lock() // until Connect has returned
			library := l.library
			l.mu.Unlock()
			library.Close()
			if k := l.Status().Conn; k != nil {
				k.Close()
			}
			for range l.events { // closed by the library at its end
			}
		}()
	})
	return l.ended
}
