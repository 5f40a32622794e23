// Package sandbox implements an in-memory, single-node server that speaks ZooKeeper's
// wire protocol. It is for trying zksh, for demos and for tests, never for
// production: it stores nothing on disk, replicates nothing, and listens on
// loopback addresses only. Begin with New, Server and Options.
//
// The server imitates ZooKeeper 3.8, including its oddities; package difftest compares
// the replies of both. With Options.As it imitates another version of ZooKeeper
// (version.go lists the differences). Tests also make it imitate the oddities of other
// servers (quirks.go and product.go). It deliberately
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

// Options configures a sandbox. By default, a sandbox behaves like a freshly installed ZooKeeper
// server with the defaults in ZooKeeper's documentation.
type Options struct {
	Tick          time.Duration // unit to which session deadlines are rounded up; default 2 s
	MinTimeout    time.Duration // shortest session timeout; default 2 ticks
	MaxTimeout    time.Duration // longest session timeout; default 20 ticks
	ReapEvery     time.Duration // interval for deleting empty containers and expired TTL nodes; default 60 s
	MaxSessions   int           // maximum number of open sessions; default 4096
	MaxQueue      int           // maximum output queued for a client, in bytes; default 4 MiB
	MaxTreeBytes  int64         // maximum memory of the tree, in bytes; default 1 GiB
	MaxWatchBytes int64         // maximum memory of all watches, in bytes; default 128 MiB

	EnforceQuota    bool    // reject writes that exceed a hard quota; default false
	As              Version // ZooKeeper version to imitate; default DefaultVersion
	NoExtendedTypes bool    // reject TTL nodes, as ZooKeeper does by default; default false
	SuperDigest     string  // "super:<digest>" of the superuser; default none

	// Throttle is for tests. The server calls it with mu held, before it executes a request. If it
	// returns true for the request's opcode, the server replies with the error ThrottledOp instead.
	Throttle func(op int32) bool
	// EnforceAuth makes the server close a connection that sends a request before it has sent a
	// valid credential.
	EnforceAuth bool
	// OnlySuperuser makes the server close a connection that sends a request before it has
	// authenticated as the superuser. The server then also rejects the four-letter commands that
	// print paths.
	OnlySuperuser bool

	Quirks

	// Now returns the current time. If it is nil, the server uses time.Now, which also works in a
	// testing/synctest bubble. If it is set, the server has no timer, so sessions and nodes never
	// expire on their own.
	Now func() time.Time
}

// errClosed is returned by methods after Close. errPaused is returned for a new connection while
// the server is paused.
var (
	errClosed = errors.New("sandbox: server is closed")
	errPaused = errors.New("sandbox: connection refused: server is paused")
)

// A Server is an in-memory ZooKeeper server. It is safe for concurrent use.
type Server struct {
	opt     Options
	started time.Time
	wg      sync.WaitGroup
	queued  atomic.Int64 // total length of the output queues of all connections, in bytes

	// mu guards the fields below. The server holds it while it executes a request, so it executes
	// only one request at a time.
	mu          sync.Mutex
	tree        *tree
	zxid        int64
	sessions    map[int64]*session
	lastSession int64
	conns       map[*conn]struct{}
	listeners   map[net.Listener]struct{}
	handler     func(*conn, []byte) verdict // the method handle; tests wrap it to inject faults
	stats       serverStats
	scratch     jute.Encoder // encodes replies to reads, until they are queued
	timer       *time.Timer
	timerAt     time.Time // time for which the timer is set; zero if it is stopped
	nextReap    time.Time
	paused      bool
	closed      bool
	unset       map[string]struct{} // paths of znodes that Load may still set; nil before Load
	leaderless  bool                // whether the server acts as if it knew no leader; set by SetLeaderless
}

// New returns a new server. It accepts no connections until Listen is called.
func New(opt Options) *Server {
	if opt.Product != "" {
		opt.As = productBase
	}
	set(&opt.As, DefaultVersion)
	set(&opt.Tick, 2*time.Second)
	set(&opt.MinTimeout, 2*opt.Tick)
	set(&opt.MaxTimeout, 20*opt.Tick)
	set(&opt.ReapEvery, time.Minute)
	set(&opt.MaxSessions, 4096)
	set(&opt.MaxQueue, 4<<20)
	set(&opt.MaxTreeBytes, 1<<30)
	set(&opt.MaxWatchBytes, 128<<20)
	s := &Server{
		opt:       opt,
		tree:      newTree(&opt),
		sessions:  make(map[int64]*session),
		conns:     make(map[*conn]struct{}),
		listeners: make(map[net.Listener]struct{}),
	}
	s.handler = s.handle
	s.started = s.now()
	// A client of an earlier sandbox on this port may try to resume its session, which this server
	// does not know. Start with a zxid larger than any that the client has seen, so that it learns
	// that its session has expired. With a smaller zxid, the server would close the connection, and
	// the client would retry forever.
	s.zxid = s.started.Unix() << 32
	s.lastSession = 1<<56 | s.started.UnixMilli()&(1<<40-1)<<16
	s.timer = time.AfterFunc(time.Hour, s.onTimer)
	s.timer.Stop()
	return s
}

// set sets *v to the default def if *v is the zero value.
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

// Listen makes the server accept connections on a loopback address, such as "127.0.0.1:0". It
// returns the address with the actual port. The server listens until Close is called.
func (s *Server) Listen(addr string) (net.Addr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if host == "localhost" {
		// Do not resolve the name localhost, because it may be another address on this machine.
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); !ip.IsLoopback() {
		return nil, fmt.Errorf("sandbox: cannot listen on %q: only loopback addresses are allowed, "+
			"such as 127.0.0.1:2181", addr)
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

// accept accepts connections until Close is called. While the server is paused, it closes each
// new connection at once, but continues to listen.
func (s *Server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // perhaps file descriptors are scarce, so try again later
			time.Sleep(50 * time.Millisecond)
		case s.startConn(nc) != nil:
			_ = nc.Close()
		}
	}
}

// startConn begins to serve the connection nc.
func (s *Server) startConn(nc net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.paused:
		return errPaused
	case len(s.conns) >= 2*s.opt.MaxSessions+16:
		// There can be more connections than sessions, because some connections have no session:
		// those that send four-letter commands, and the old connection of a session that was
		// resumed.
		return fmt.Errorf("sandbox: connection refused: the limit of %d connections has been reached", len(s.conns))
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.wg.Go(c.serve)
	return nil
}

// Pause closes all connections and rejects new ones until Resume is called, as if the network had
// failed. The tree and the sessions remain, but sessions can expire during the pause.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = true
	for c := range s.conns {
		s.drop(c)
	}
}

// Resume makes a paused server accept connections again.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = false
}

// SetSequence sets the sequence number of the next sequential child of the znode at path. It
// reports whether the znode exists.
func (s *Server) SetSequence(path string, number int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.nodes[path]
	if n != nil {
		n.creates = number
	}
	return n != nil
}

// Close closes all connections, stops listening, and waits until all goroutines of the server
// have ended.
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

// drop closes a connection and removes its watches. The client can resume its session later,
// unless the imitated server ends sessions together with their connections.
func (s *Server) drop(c *conn) {
	s.unregister(c)
	_ = c.nc.Close()
}

// unregister removes a connection and its watches from the server's state. It does not close the
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
