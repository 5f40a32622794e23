package sandbox

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// A client is a session. Its methods end the test if something fails.
type client struct {
	t *testing.T
	*rawzk.Conn
}

const requestedTimeout = 10000 // session timeout of the clients in these tests, in ms

// open opens a new session over an in-process connection.
func open(t *testing.T, s *Server) *client {
	return resume(t, s, rawzk.Session{Timeout: requestedTimeout})
}

func resume(t *testing.T, s *Server, want rawzk.Session) *client {
	t.Helper()
	nc, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	want.Timeout = requestedTimeout
	c, err := rawzk.Connect(nc, want, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, c}
}

// call sends a request and returns its reply. It drops events.
func (c *client) call(op int32, body []byte) rawzk.Frame {
	c.t.Helper()
	frames, err := c.Call(op, body)
	if err != nil {
		c.t.Fatalf("opcode %d: %v", op, err)
	}
	return frames[len(frames)-1]
}

// must is call for requests that must succeed.
func (c *client) must(op int32, body []byte) *jute.Decoder {
	c.t.Helper()
	f := c.call(op, body)
	if f.Err != 0 {
		c.t.Fatalf("opcode %d: error %d", op, f.Err)
	}
	return jute.NewDecoder(f.Body)
}

func (c *client) create(path string, flags int32) string {
	c.t.Helper()
	return c.must(jute.OpCreate, rawzk.Create(path, []byte("x"), rawzk.Open, flags)).String()
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	return c.call(jute.OpExists, rawzk.PathWatch(path, false)).Err == 0
}

// waitClosed waits until the server closes the connection.
func (c *client) waitClosed() {
	c.t.Helper()
	for {
		if _, err := c.Recv(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatalf("connection ended with %v", err)
		}
	}
}

// bubble runs f with a new server in a synctest bubble. Waiting takes no time there, and a
// goroutine that is still running at the end fails the test.
func bubble(t *testing.T, opt Options, f func(t *testing.T, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(opt)
		f(t, s)
		s.mu.Lock()
		check(t, s)
		s.mu.Unlock()
		_ = s.Close()
	})
}

// check fails the test if the tree and its indexes contradict each other.
func check(t testing.TB, s *Server) {
	t.Helper()
	fresh := newTree(&s.opt)
	var nodes, bytesUsed, data int
	for path, n := range s.tree.nodes {
		nodes++
		if path == "" || path == "/" {
			continue
		}
		parent := s.tree.nodes[parentOf(path)]
		if parent == nil {
			t.Fatalf("%s has no parent", path)
		}
		if _, ok := parent.children[nameOf(path)]; !ok {
			t.Fatalf("%s is not among its parent's children", path)
		}
		if isSession(n.owner) {
			if _, ok := s.tree.ephemerals[n.owner][path]; !ok {
				t.Fatalf("%s is not among its session's nodes", path)
			}
			if s.sessions[n.owner] == nil && s.unset == nil {
				t.Fatalf("%s has outlived its session", path)
			}
		}
		data += len(path) + len(n.data)
		if fresh.nodes[path] == nil {
			bytesUsed += len(path) + nodeCost
		}
		bytesUsed += len(n.data)
	}
	bytesUsed += len(s.tree.nodes["/"].data)
	data += 1 + len(s.tree.nodes["/"].data)
	children := 1
	for path, n := range s.tree.nodes {
		if path != "" {
			children += len(n.children)
		}
	}
	if children != nodes-1 {
		t.Fatalf("%d children, %d nodes", children, nodes)
	}
	if s.tree.bytes != int64(bytesUsed) || s.tree.dataBytes != int64(data) {
		t.Fatalf("counted %d and %d bytes, there are %d and %d", s.tree.bytes, s.tree.dataBytes, bytesUsed, data)
	}
	for i := range s.tree.watches {
		w := &s.tree.watches[i]
		total, recursive, size := 0, 0, 0
		for path, set := range w.paths {
			for c, mode := range set {
				if c.gone {
					t.Fatalf("a connection that is gone watches %q", path)
				}
				total++
				size += len(path) + watchCost
				if mode&watchRecursive != 0 {
					recursive++
				}
			}
		}
		if total != w.total || recursive != w.recursive || int64(size) != w.bytes {
			t.Fatalf("watches: counted %d, %d recursive, %d bytes; there are %d, %d, %d", w.total, w.recursive, w.bytes, total, recursive, size)
		}
	}
}

// Dial connects to the server within the process, without a port.
func (s *Server) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	if err := s.startConn(pipeEnd{server}); err != nil {
		return nil, err
	}
	return client, nil
}

// pipeEnd is the server's end of a connection from Dial.
type pipeEnd struct{ net.Conn }

type pipeAddr struct{}

func (pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }
func (pipeAddr) Network() string     { return "pipe" }
func (pipeAddr) String() string      { return "in-process" }

// Tick does at once what the timer would do: it expires sessions and deletes empty
// containers and expired TTL nodes.
func (s *Server) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		now := s.now()
		s.expire(now)
		s.reap(now)
	}
}
