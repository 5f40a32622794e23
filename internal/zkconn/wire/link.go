// Package wire keeps a client connected to a ZooKeeper ensemble: it finds a server, does
// the handshake, carries requests and their answers in frames, pings, and moves the session
// to another server when this one fails. It reports "not sent" and "unknown whether it was
// carried out" apart, and never lets a request that was meant for one session run in another.
//
// The library underneath, go-zookeeper, keeps the TCP connection and the session alive. It
// reads and writes through a Conn, which takes requests of its own in between; see library.go.
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

// Config says how to connect.
type Config struct {
	Hosts      []string      // host:port each
	Timeout    time.Duration // of the session, to ask for; it also bounds the search for a server
	ReadOnly   bool          // accept a server that lost its quorum
	MaxRequest int           // size in bytes of the largest request, which raises the limits of replies
	Secure     secure.Config
	Memory     *Memory                // of the replies that nobody is done with
	Refusal    func(code int32) error // words an error code of the protocol

	Dial func(ctx context.Context, network, addr string) (net.Conn, error) // nil is net.Dialer's
	Tap  func(net.Conn) net.Conn                                           // what each connection goes through, above TLS; nil: nothing
}

// A Handler hears what happens to a Link. Those of its methods that are called under the
// Link's lock must not call the Link, and none may wait.
type Handler interface {
	// Connected reports a session on a connection. It returns the requests that go before
	// all others. Zxid is the latest that a server has shown to this session. Under the lock.
	Connected(k *Conn, zxid int64) []*Request
	// Disconnected reports that there is no connection any more. Under the lock.
	Disconnected()
	// Expired reports that a session is over, with all that a server kept for it; the next
	// connection begins another one. Under the lock.
	Expired()
	// Failed reports that the Link has ended without Close. Under the lock.
	Failed(e Ending)
	// Unreachable reports that no server of the list can be reached, once until there is a
	// connection again. Under the lock.
	Unreachable(tried []Attempt)

	// Event takes a watch event, by its number in the protocol. With an error the Link ends.
	Event(typ int32, path string, zxid int64) error
	// HungUp reports that a server hung up over a trial of a kind of request, or did not
	// answer it, and whether the next connection may have nothing to do with that.
	HungUp(op int32, server string, cause error) (accident bool)
	// Passed reports that a server has carried out a trial of a kind of request.
	Passed(op int32)
	// Relies reports whether a connection is wanted without delay.
	Relies() bool
}

// An Ending is why a Link has ended.
type Ending struct {
	AuthFailed bool
	Why        error // nil after Close, or if only whoever sent the credentials knows
}

// An Attempt is one failed attempt to connect.
type Attempt struct {
	Addr  string
	Cause error
}

// Link is one client of one ensemble, from connect to close: the library's Conn
// and what it lacks. It lives through reconnects and, after an expiry, goes on
// with a new session of the same ensemble.
type Link struct {
	cfg     Config
	handler Handler

	hosts    *hosts
	library  *zk.Conn
	events   <-chan zk.Event // not read: the handler has them all; closed when the library's goroutines have ended
	ctx      context.Context // of dialing
	cancel   context.CancelFunc
	shutOnce sync.Once
	ended    chan struct{}

	// These are for failover.go.
	guards atomic.Int32
	tied   atomic.Bool   // see Tie
	rtt    atomic.Int64  // how long an answer takes, smoothed, in nanoseconds
	moving chan struct{} // capacity 1, full while another server is tried
	spare  *Conn         // what the library's next dialing gets; who has filled moving may touch it

	mu        sync.Mutex
	changed   chan struct{} // closed, and made anew, at each change below
	ending    *Ending       // nil until the link has ended
	cur       *Conn         // nil while disconnected
	id        int64
	passwd    []byte        // the session's, in memory only
	epoch     Epoch         // grows with each session that ends
	over      chan struct{} // closed when the session is over; then made anew for the next
	timeout   time.Duration // negotiated, or asked
	lastSent  time.Time     // when the latest answered request was sent
	lastZxid  int64
	passes    int       // passes over the server list that found none, counted once a second at most
	counted   time.Time // when passes was increased since the last connection; zero if it was not
	attempts  []Attempt // of the pass in progress, or of the last one
	failed    []Attempt // of the last whole pass
	searching bool      // a pass has failed since there was a connection
	refusals  int       // connect replies without a session since anything was answered
}

// New makes a Link, which Connect connects.
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
		zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false)) // what it logs reaches us as errors
	if err != nil {
		l.cancel()
		return err
	}
	l.library, l.events = library, events
	return nil
}

// A Status is a Link at one moment.
type Status struct {
	Conn     *Conn         // nil while disconnected
	Ending   *Ending       // nil until the Link has ended
	ID       int64         // of the session; 0 before the first
	Timeout  time.Duration // of the session: negotiated; before the first connection, asked for
	Patience time.Duration // how long to wait for a server that grants this timeout
	Epoch    Epoch
	Over     <-chan struct{} // closed when the session is over
	LastSent time.Time       // when the latest request that was answered had been sent
	Passes   int             // number of passes over the server list that found none, counted once a second at most
	Tried    []Attempt       // of the last whole pass
	Trying   []Attempt       // of the pass in progress
	Changed  <-chan struct{} // closed when anything of this changes
}

// Status returns the present one.
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

// Context ends with the Link.
func (l *Link) Context() context.Context { return l.ctx }

// Expedite shortens a pause between attempts to connect if Relies is true by now.
func (l *Link) Expedite() { l.hosts.expedite() }

// Tie notes that the ensemble ends a session with its connection, as ClickHouse Keeper does.
func (l *Link) Tie() { l.tied.Store(true) }

// Tied reports whether the ensemble is known to end a session with its connection.
func (l *Link) Tied() bool { return l.tied.Load() }

// usualMinimum is longer than the minimum of the session timeout that servers have unless
// somebody raised it: 4 s on ZooKeeper, 10 s on ClickHouse Keeper.
const usualMinimum = 20 * time.Second

// bounded is how long zksh waits for a server that grants a session timeout: no longer than
// the user asked for, or than a server's usual minimum. A server can grant 24 days.
func (l *Link) bounded(timeout time.Duration) time.Duration {
	return min(timeout, max(l.cfg.Timeout, usualMinimum))
}

// notify is called with mu held.
func (l *Link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Wake closes Status.Changed, for those who wait for something else, too.
func (l *Link) Wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify()
}

// end leaves the link for good. Called with mu held.
func (l *Link) end(e Ending) {
	l.ending = &e
	l.cancel()
	l.endSession()
	l.notify()
}

// Fail ends the Link for a reason, unless it has ended.
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

// Close ends the Link, its connection, and the session on the server if there is a
// connection. It returns what was before, and a channel that is closed when all has ended.
// Without a connection nothing need be waited for: the library's goroutines end by
// themselves within a second.
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
		go func() { // the library bounds its Close by a second; what still reads ends with the connection
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
