// Package sandbox implements an in-memory, single-node server that speaks ZooKeeper's
// wire protocol. It is for trying zksh, for demos and for tests, never for
// production: it stores nothing on disk, replicates nothing, and listens on
// loopback addresses only. Begin with New, Server and Options.
//
// The server imitates ZooKeeper 3.8, including its oddities; package difftest compares
// the replies of both. With Options.As it imitates another version of ZooKeeper
// (version.go lists the differences) or a compatible server (product.go). It deliberately
// differs from ZooKeeper where ZooKeeper would crash, grow without limit or change the
// order of requests:
//
//   - a create with opcode 21 (createTTL) and a mode without a time to live fails
//     with BadArguments;
//   - if the statistics of a quota are malformed, the server reads as many counters
//     from them as it can;
//   - Options limits the tree, the watches, the sessions and the output queued for
//     slow readers; an ACL has at most 4096 entries, a credential at most 4 KiB, and a
//     connection at most 64 identities;
//   - the server handles credentials in order with the other requests of a session,
//     while in ZooKeeper they can overtake requests.
//
// The server supports no quorum, no storage on disk, no SASL, no TLS and no
// reconfiguration.
package sandbox

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// Options configures a server. With the zero value, the server behaves like a freshly installed
// ZooKeeper with its documented defaults. The comment of each field ends with its default.
type Options struct {
	Tick          time.Duration // session deadlines are rounded up to whole ticks; 2 s
	MinTimeout    time.Duration // shortest session timeout; 2 ticks
	MaxTimeout    time.Duration // longest session timeout; 20 ticks
	ReapEvery     time.Duration // interval between deletions of empty containers and expired TTL nodes; 60 s
	MaxSessions   int           // maximum number of open sessions; 4096
	MaxQueue      int           // output queued for one client, in bytes, beyond which it is disconnected; 4 MiB
	MaxTreeBytes  int64         // memory of the tree, in bytes, beyond which writes fail with SystemError; 1 GiB
	MaxWatchBytes int64         // memory of all watches, in bytes; a connection that exceeds it is closed; 128 MiB

	EnforceQuota    bool    // reject writes that exceed a hard quota, instead of only counting them; false
	As              Version // version or product to imitate; DefaultVersion
	NoExtendedTypes bool    // reject TTL nodes, as ZooKeeper does unless they are enabled; false
	SuperDigest     string  // "super:<digest>" of the superuser; none

	// Throttle is for tests. If it returns true for the opcode of a request, the server replies
	// with ThrottledOp instead of executing the request. The server calls it with mu held.
	Throttle func(op int32) bool
	// EnforceAuth makes the server close a connection that sends a request before the server
	// has accepted one of its credentials.
	EnforceAuth bool

	Quirks

	// Now returns the current time. If it is nil, the server uses time.Now, which also works
	// inside a testing/synctest bubble. If it is set, the server uses no timer: no session
	// expires and no node is reaped on its own.
	Now func() time.Time
}

// errClosed is the error of calls after Close. errPaused is the error for a new connection while
// the server is paused.
var (
	errClosed = errors.New("sandbox: server is closed")
	errPaused = errors.New("sandbox: connection refused: server is paused")
)

// Server is a sandbox server. It is safe for concurrent use.
type Server struct {
	opt     Options
	started time.Time
	wg      sync.WaitGroup
	queued  atomic.Int64 // total length of the output queues of all connections, in bytes

	// mu guards the fields below. Requests are executed with mu held, hence one after the other.
	mu          sync.Mutex
	tree        *tree
	zxid        int64
	sessions    map[int64]*session
	lastSession int64
	conns       map[*conn]struct{}
	listeners   map[net.Listener]struct{}
	handler     func(*conn, []byte) verdict // handle, wrapped by tests that inject faults
	stats       serverStats
	scratch     jute.Encoder // buffer for the reply to a read, until the reply is queued
	timer       *time.Timer
	timerAt     time.Time // time at which the timer fires; zero if it is not set
	nextReap    time.Time
	paused      bool
	closed      bool
	leaderless  bool // set by SetLeaderless
}

// New returns a server that accepts no connections until Listen is called.
func New(opt Options) *Server {
	set(&opt.As, DefaultVersion)
	set(&opt.Tick, 2*time.Second)
	if _, ok := opt.As.product(); ok {
		set(&opt.MinTimeout, productMinTimeout)
	}
	set(&opt.MinTimeout, 2*opt.Tick)
	set(&opt.MaxTimeout, 20*opt.Tick)
	set(&opt.ReapEvery, time.Minute)
	set(&opt.MaxSessions, 4096)
	set(&opt.MaxQueue, 4<<20)
	set(&opt.MaxTreeBytes, 1<<30)
	set(&opt.MaxWatchBytes, 128<<20)
	s := &Server{
		opt:       opt,
		tree:      newTree(opt.As),
		sessions:  make(map[int64]*session),
		conns:     make(map[*conn]struct{}),
		listeners: make(map[net.Listener]struct{}),
	}
	s.handler = s.handle
	s.started = s.now()
	// A client of an earlier sandbox on the same port may try to resume its session, which
	// this server does not know. Because the zxids of this server begin above all zxids that
	// the client has seen, the client learns that its session has expired. With a smaller
	// zxid, it would be rejected and would retry forever.
	s.zxid = s.started.Unix() << 32
	s.lastSession = 1<<56 | s.started.UnixMilli()&(1<<40-1)<<16
	s.stats.lastReply, s.stats.minReply, s.stats.maxReply = -1, -1, -1
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.timer.Stop()
	return s
}

// set assigns the default def to *v if *v is the zero value.
func set[T comparable](v *T, def T) {
	if *v == *new(T) {
		*v = def
	}
}

func (s *Server) now() time.Time {
	if s.opt.Now != nil {
		return s.opt.Now()
	}
	return time.Now()
}

// Listen starts to accept connections on a loopback address, such as "127.0.0.1:0", until Close
// is called. It returns the address with the actual port.
func (s *Server) Listen(addr string) (net.Addr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if host == "localhost" {
		host = "127.0.0.1" // the name localhost may resolve to another address on this machine
	}
	if ip := net.ParseIP(host); !ip.IsLoopback() {
		return nil, fmt.Errorf("sandbox: cannot listen on %q: only loopback addresses are allowed, such as 127.0.0.1:2181", addr)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = ln.Close()
		return nil, errClosed
	}
	s.listeners[ln] = struct{}{}
	s.wg.Go(func() { s.accept(ln) })
	return ln.Addr(), nil
}

// accept accepts connections until Close closes the listener. While the server is
// paused, it closes each new connection at once, but keeps listening.
func (s *Server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // perhaps a temporary shortage of file descriptors
			time.Sleep(50 * time.Millisecond)
		case s.startConn(nc) != nil:
			_ = nc.Close()
		}
	}
}

// startConn starts serving a connection.
func (s *Server) startConn(nc net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.paused:
		return errPaused
	case len(s.conns) >= 2*s.opt.MaxSessions+16:
		// The limit is higher than MaxSessions to leave room for connections without a session:
		// the old connection of a session that has been resumed, connections that send
		// four-letter commands, and connections that have not yet sent their first frame.
		s.stats.rejected++
		return fmt.Errorf("sandbox: connection refused: the limit of %d connections has been reached", len(s.conns))
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.wg.Go(c.serve)
	return nil
}

// Pause closes every connection and rejects new ones until Resume is called, as if the network
// had failed. The server keeps the tree and the sessions, but a session expires if the pause is
// longer than its timeout.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	for c := range s.conns {
		s.drop(c)
	}
}

// Resume makes the server accept connections again.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
}

// SetSequence sets the number that will be appended to the name of the next sequential child of
// the znode at path. It reports whether the znode exists.
func (s *Server) SetSequence(path string, number int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n != nil {
		n.creates = number
	}
	return n != nil
}

// Close closes every connection, stops listening, and waits until all of the
// server's goroutines have ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	for ln := range s.listeners {
		_ = ln.Close()
	}
	for c := range s.conns {
		s.drop(c)
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// drop closes a connection and removes its watches. Its session remains open, unless the
// imitated server ends sessions with their connections.
func (s *Server) drop(c *conn) {
	s.unregister(c)
	_ = c.nc.Close()
}

// unregister removes a connection and its watches from the server's state, without closing the
// connection.
func (s *Server) unregister(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	delete(s.conns, c)
	for i := range s.tree.watches {
		s.tree.watches[i].drop(c)
	}
	if c.sess != nil && c.sess.conn == c {
		c.sess.conn = nil
		s.endWithConnection(c.sess)
	}
}
