// Package sandbox is a ZooKeeper to play with: an in-memory, single-node server
// that speaks ZooKeeper's wire protocol. It is for trying zksh, for demos and
// for tests, never for production: nothing is kept, nothing is replicated, and
// it listens on loopback only.
//
// It follows ZooKeeper 3.8, oddities included; package difftest compares the
// two, reply by reply. Asked to, it answers as other versions do, in what version.go
// lists, or as servers of others, in what product.go lists. It differs on purpose where the real one would die or grow
// without end:
//
//   - opcode 21 with a mode that has no time to live is BadArguments, and
//     malformed quota statistics count from what can be read of them;
//   - the tree, the watches, the sessions and what waits for a slow reader are
//     bounded by Options, an ACL by 4096 entries, a credential by 4 KiB, a
//     connection by 64 identities;
//   - credentials keep their place among a session's requests; the real one lets
//     them overtake.
//
// It has no quorum, no disk, no SASL, no TLS and no reconfiguration.
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

// Options shape a server. The zero value is a server like a freshly installed
// ZooKeeper with its documented defaults.
type Options struct {
	Tick          time.Duration // sessions expire on whole ticks; 2 s
	MinTimeout    time.Duration // shortest session timeout; 2 ticks
	MaxTimeout    time.Duration // longest session timeout; 20 ticks
	ReapEvery     time.Duration // how often empty containers and outlived nodes go; 60 s
	MaxSessions   int           // no more are opened; 4096
	MaxQueue      int           // bytes waiting for a slow reader before it is cut off; 4 MiB
	MaxTreeBytes  int64         // writes beyond it fail with SystemError; 1 GiB
	MaxWatchBytes int64         // the connection that goes beyond it is cut off; 128 MiB

	EnforceQuota    bool    // refuse writes beyond a hard quota, rather than count only
	As              Version // whose answers it gives; DefaultVersion
	NoExtendedTypes bool    // refuse TTL nodes, as a real server does by default
	SuperDigest     string  // "super:<digest>" of the user who may do anything; none

	// Throttle tells, for tests, which requests are answered with ThrottledOp and not
	// carried out. It is called with the server locked.
	Throttle func(op int32) bool
	// EnforceAuth hangs up on whoever asks for anything before a credential was accepted.
	EnforceAuth bool

	Quirks

	// Now is the clock; nil is the system's, and inside a testing/synctest
	// bubble the bubble's. With a Now of its own the server sets no timer:
	// nothing expires by itself.
	Now func() time.Time
}

// errClosed is the error of a server that has been closed, errPaused that of a
// connection while the server is paused.
var (
	errClosed = errors.New("sandbox: server is closed")
	errPaused = errors.New("sandbox: connection refused: server is paused")
)

// Server is one sandbox. Its methods may be called from any goroutine.
type Server struct {
	opt     Options
	started time.Time
	wg      sync.WaitGroup
	queued  atomic.Int64 // bytes on the way out, over all connections

	// One lock guards everything: it is the one global order of all requests.
	mu          sync.Mutex
	tree        *tree
	zxid        int64
	sessions    map[int64]*session
	lastSession int64
	conns       map[*conn]struct{}
	listeners   map[net.Listener]struct{}
	carryOut    func(*conn, []byte) verdict // handle, which tests of faults wrap
	stats       serverStats
	scratch     jute.Encoder // of the answer to a read, until it is queued
	timer       *time.Timer
	armed       time.Time // when the timer rings; zero if it does not
	nextReap    time.Time
	paused      bool
	closed      bool
	leaderless  bool // see SetLeaderless
}

// New makes a server that nobody can reach yet: see Listen.
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
	s.carryOut = s.handle
	s.started = s.now()
	// Clients of a former sandbox on the same port have seen smaller zxids and
	// hold unknown sessions, so they are told that their session has expired. A
	// zxid below theirs would make them try again for ever.
	s.zxid = s.started.Unix() << 32
	s.lastSession = 1<<56 | s.started.UnixMilli()&(1<<40-1)<<16
	s.stats.lastReply, s.stats.minReply, s.stats.maxReply = -1, -1, -1
	s.timer = time.AfterFunc(time.Hour, s.alarm)
	s.timer.Stop()
	return s
}

// set puts a default in place of a zero value.
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

// Listen listens on a loopback address such as "127.0.0.1:0" and serves it until
// Close. It returns the address listened on.
func (s *Server) Listen(addr string) (net.Addr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if host == "localhost" {
		host = "127.0.0.1" // whatever it resolves to here
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

// accept takes connections until Close closes the listener. While the server is
// paused they are closed again at once: the port stays ours.
func (s *Server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or so: that may pass
			time.Sleep(50 * time.Millisecond)
		case s.take(nc) != nil:
			_ = nc.Close()
		}
	}
}

// take begins to serve a connection.
func (s *Server) take(nc net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.paused:
		return errPaused
	case len(s.conns) >= 2*s.opt.MaxSessions+16:
		// Not even room for those who have not said yet what they want.
		s.stats.rejected++
		return fmt.Errorf("sandbox: connection refused: the limit of %d connections has been reached", len(s.conns))
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.wg.Go(c.serve)
	return nil
}

// Pause cuts every connection and refuses new ones, as if the network had
// failed. The tree and the sessions stay, and the sessions' clocks run: a pause
// longer than its timeout expires a session.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	for c := range s.conns {
		s.drop(c)
	}
}

// Resume lets clients in again.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
}

// SetSequence makes the next sequential child of a znode carry a number, as if so
// many children had been made. It reports whether there is such a znode.
func (s *Server) SetSequence(path string, number int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n != nil {
		n.creates = number
	}
	return n != nil
}

// Close cuts every connection, stops listening, and waits until all of the
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

// drop cuts a connection: its watches go with it, its session stays.
func (s *Server) drop(c *conn) {
	s.forget(c)
	_ = c.nc.Close()
}

// forget takes a connection out of the books.
func (s *Server) forget(c *conn) {
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
