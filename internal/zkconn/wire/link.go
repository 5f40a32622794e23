// Package wire keeps a client connected to a ZooKeeper ensemble. It finds a server, does the
// handshake, sends requests and receives their answers, pings, and moves the session to another
// server when the current one fails. Each request ends as answered, not sent, or sent without an
// answer, and a request that was made for one session never runs in another.
//
// A Link is the client of one ensemble, a Conn is one of its TCP connections, and a Request is
// sent by Conn.Send. The library go-zookeeper maintains the TCP connection and the session. It
// reads and writes through a Conn, which sends zksh's requests between go-zookeeper's; see
// library.go.
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

// Config contains the settings of a Link: the servers, and how to connect to them.
type Config struct {
	Hosts      []string      // addresses of the servers, each as host:port
	Timeout    time.Duration // requested session timeout, which also limits the search for a server
	ReadOnly   bool          // accept a server that has lost its quorum
	MaxRequest int           // size of the largest request, in bytes; a large value also raises the limits for replies
	Secure     secure.Config
	Memory     *Memory                // counts the bytes of replies in memory
	Tracing    *Tracing               // observes the traffic; may be nil
	Refusal    func(code int32) error // returns the error for an error code of the protocol

	Dial  DialFunc // opens TCP connections; nil means net.Dialer.DialContext
	Proxy *Proxy   // SOCKS5 proxy for all connections; nil if there is none
}

// A DialFunc opens a connection to addr.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// A Handler is notified of the connections, sessions and watch events of a Link. Methods that are
// called while the Link's lock is held must not call methods of the Link. No method may block.
type Handler interface {
	// Connected is called when a server has granted a session on connection k. It returns the
	// requests to send before all others. zxid is the latest zxid that the session has seen.
	// The Link's lock is held.
	Connected(k *Conn, zxid int64) []*Request
	// Disconnected is called when the connection is lost. The Link's lock is held.
	Disconnected()
	// Expired is called when a session is over, and with it everything that the servers
	// stored for it. The next connection begins another session. The Link's lock is held.
	Expired()
	// Failed is called when the Link has ended without Close. The Link's lock is held.
	Failed(e Ending)
	// Unreachable is called when all servers of the list have been tried without success. It is
	// called at most once between two connections. tried contains the failed attempts. The
	// Link's lock is held.
	Unreachable(tried []Attempt)

	// Event is called for each watch event. typ is the number of the event type in the
	// protocol. If Event returns an error, the Link ends.
	Event(typ int32, path string, zxid int64) error
	// HungUp is called when a trial, which is a request that the server may not know, was the
	// probable cause of a lost connection. The server has closed the connection, or has not
	// answered the trial. op is the opcode of the trial. accident reports whether the server
	// may support the opcode nevertheless. See trial.go.
	HungUp(op int32, server string, cause error) (accident bool)
	// Passed is called when a server has answered a trial with anything but Unimplemented. op
	// is the opcode of the trial.
	Passed(op int32)
	// Relies reports whether the link must reconnect without delay, because a caller depends on
	// the session or waits for a connection.
	Relies() bool
}

// An Ending describes why a Link has ended.
type Ending struct {
	AuthFailed bool  // whether the server rejected a credential
	Why        error // nil after Close, or if the request with the rejected credential returns the error
}

// An Attempt is one failed attempt to connect to a server.
type Attempt struct {
	Addr  string
	Cause error
}

// A Link is the client of one ensemble from connect to close. It extends go-zookeeper's zk.Conn.
// It survives reconnects, and continues with a new session on the same ensemble after a session
// has expired.
type Link struct {
	cfg     Config
	handler Handler

	hosts    *hosts
	library  *zk.Conn
	events   <-chan zk.Event // closed when go-zookeeper's goroutines have ended; the events themselves are not used
	ctx      context.Context // ends with the Link, and cancels all dialing
	cancel   context.CancelFunc
	shutOnce sync.Once
	ended    chan struct{}

	// The following fields are used by failover.go.
	guards atomic.Int32  // number of calls of Guard that have not been released
	tied   atomic.Bool   // whether the ensemble ends each session together with its connection; see Tie
	rtt    atomic.Int64  // smoothed round-trip time, in nanoseconds
	moving chan struct{} // capacity 1; used as a lock, full while failover tries other servers
	spare  *Conn         // connection that go-zookeeper's next dial gets; guarded by moving

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced when one of the fields below changes
	ending    *Ending       // reason why the Link has ended; nil until then
	cur       *Conn         // current connection; nil while disconnected
	id        int64
	passwd    []byte        // password of the session, in memory only
	epoch     Epoch         // incremented when a session ends
	over      chan struct{} // closed when the session is over, and replaced for the next one
	timeout   time.Duration // negotiated session timeout; before the first connection, the requested one
	lastSent  time.Time     // send time of the latest answered request
	lastZxid  int64
	passes    int       // number of failed passes over the server list, increased once a second at most
	counted   time.Time // time when passes was last increased; zero if that was before the last connection
	attempts  []Attempt // failed attempts of the pass in progress, or of the last one
	failed    []Attempt // failed attempts of the last complete pass
	searching bool      // whether a pass has failed since the last connection
	refusals  int       // number of connect replies without a session since the last answer to a request or ping
}

// New returns a Link, which does nothing until Connect is called.
func New(cfg Config, handler Handler) *Link {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.Proxy != nil {
		cfg.Dial = cfg.Proxy.Dialer(cfg.Dial)
	}
	l := &Link{
		cfg: cfg, handler: handler, timeout: cfg.Timeout, passwd: noPasswd,
		changed: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), moving: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.hosts = newHosts(l.ctx, cfg.Timeout, cfg.Hosts, l.passFailed, l.urgent)
	if cfg.Proxy != nil {
		l.hosts.resolve = resolveNothing
	}
	return l
}

// Connect starts to connect and returns at once. It must be called only once.
func (l *Link) Connect() error {
	l.mu.Lock() // a connection may end the Link before zk.Connect has returned
	defer l.mu.Unlock()
	library, events, err := zk.Connect(l.cfg.Hosts, l.cfg.Timeout,
		zk.WithDialer(l.dial), zk.WithHostProvider(l.hosts),
		zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false)) // errors reach the user without the log
	if err != nil {
		l.cancel()
		return err
	}
	l.library, l.events = library, events
	return nil
}

// A Status is a snapshot of a Link.
type Status struct {
	Conn     *Conn         // current connection; nil while disconnected
	Ending   *Ending       // reason why the Link has ended; nil until then
	ID       int64         // id of the session; 0 before the first session
	Timeout  time.Duration // negotiated session timeout; before the first connection, the requested one
	Patience time.Duration // how long to wait for a server: Timeout, up to a limit
	Epoch    Epoch
	Over     <-chan struct{} // closed when the session is over
	LastSent time.Time       // send time of the latest answered request
	Passes   int             // number of failed passes over the server list, increased once a second at most
	Tried    []Attempt       // failed attempts of the last complete pass
	Trying   []Attempt       // failed attempts of the pass in progress
	Changed  <-chan struct{} // closed at the next change of the Status
}

// Status returns the current Status.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status()
}

// status returns the current Status. The caller must hold mu.
func (l *Link) status() Status {
	return Status{
		Conn: l.cur, Ending: l.ending, ID: l.id, Timeout: l.timeout, Patience: l.bounded(l.timeout),
		Epoch: l.epoch, Over: l.over, LastSent: l.lastSent,
		Passes: l.passes, Tried: l.failed, Trying: l.attempts, Changed: l.changed,
	}
}

// Context returns a context that ends with the Link.
func (l *Link) Context() context.Context { return l.ctx }

// Expedite shortens the current pause between two passes over the servers if Handler.Relies now
// returns true.
func (l *Link) Expedite() { l.hosts.expedite() }

// Tie records that the ensemble ends each session together with its connection, as ClickHouse
// Keeper does.
func (l *Link) Tie() { l.tied.Store(true) }

// Tied reports whether the ensemble is known to end each session together with its connection.
func (l *Link) Tied() bool { return l.tied.Load() }

// usualMinimum is an upper bound on the minimum session timeout of servers with default settings:
// 4 s for ZooKeeper, 10 s for ClickHouse Keeper.
const usualMinimum = 20 * time.Second

// bounded returns how long zksh waits for a server that granted the given session timeout. The
// result is at most the requested timeout or usualMinimum, whichever is longer, because a server
// can grant a timeout of 24 days.
func (l *Link) bounded(timeout time.Duration) time.Duration {
	return min(timeout, max(l.cfg.Timeout, usualMinimum))
}

// notify closes Status.Changed, and replaces it. The caller must hold mu.
func (l *Link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Wake closes Status.Changed even though the Status is the same, to wake the goroutines that wait
// for a change.
func (l *Link) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify()
}

// end ends the Link for good. The caller must hold mu.
func (l *Link) end(e Ending) {
	l.ending = &e
	l.cancel()
	l.endSession()
	l.notify()
}

// Fail ends the Link with e as the reason. If the Link has already ended without an error, Fail
// adds the error in e.
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

// Close ends the Link and its connection. If there is a connection, it closes the session on the
// server. It returns the Status before the call, and a channel that is closed when the session,
// the connection and all goroutines have ended. Without a connection there is no need to wait for
// the channel: go-zookeeper's goroutines end within a second.
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

// Abandon ends the Link and its connection without closing the session on the server.
func (l *Link) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending == nil {
		k := l.status().Conn
		l.end(Ending{}) // from now on, there is no other connection
		if k != nil {
			k.tcp.Close() // before go-zookeeper can close the session
		}
	}
	l.shut()
}

// shut closes go-zookeeper's connection, unless an earlier call has done so. It returns a channel
// that is closed when all goroutines of go-zookeeper have ended.
func (l *Link) shut() <-chan struct{} {
	l.shutOnce.Do(func() {
		go func() { // go-zookeeper's Close takes at most a second; a pending read ends with the connection
			defer close(l.ended)
			l.mu.Lock() // wait until Connect has returned
			library := l.library
			l.mu.Unlock()
			library.Close()
			if k := l.Status().Conn; k != nil {
				k.Close()
			}
			for range l.events { // closed by go-zookeeper at its end
			}
		}()
	})
	return l.ended
}
