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

// client is a session that ends its test when something fails.
type client struct {
	t *testing.T
	*rawzk.Conn
}

const asked = 10000 // the session timeout clients of these tests ask for, in ms

// open opens a session over an in-process connection.
func open(t *testing.T, s *Server) *client { return resume(t, s, rawzk.Session{Timeout: asked}) }

func resume(t *testing.T, s *Server, want rawzk.Session) *client {
	t.Helper()
	nc, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	want.Timeout = asked
	c, err := rawzk.Connect(nc, want, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, c}
}

// call sends a request and returns its reply, passing events over.
func (c *client) call(op int32, body []byte) rawzk.Frame {
	c.t.Helper()
	frames, err := c.Call(op, body)
	if err != nil {
		c.t.Fatalf("opcode %d: %v", op, err)
	}
	return frames[len(frames)-1]
}

// must is call for requests that have to succeed.
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

// closed waits until the server has closed the connection.
func (c *client) closed() {
	c.t.Helper()
	for {
		if _, err := c.Recv(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatalf("connection ended with %v", err)
		}
	}
}

// bubble runs a test in a synctest bubble, where a wait takes no time and a
// goroutine left behind is a failure.
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

// check looks for contradictions between the tree and the indexes over it.
func check(t testing.TB, s *Server) {
	t.Helper()
	fresh := newTree(s.opt.As)
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
			if s.sessions[n.owner] == nil {
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

// Dial connects to the server within the process, with no port in between.
func (s *Server) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	if err := s.take(pipeEnd{server}); err != nil {
		return nil, err
	}
	return client, nil
}

// pipeEnd is the server's end of a Dial.
type pipeEnd struct{ net.Conn }

type pipeAddr struct{}

func (pipeEnd) RemoteAddr() net.Addr { return pipeAddr{} }
func (pipeAddr) Network() string     { return "pipe" }
func (pipeAddr) String() string      { return "in-process" }

// Tick does at once what is due by the clock: expired sessions, empty containers,
// nodes past their time to live.
func (s *Server) Tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		now := s.now()
		s.expire(now)
		s.reap(now)
	}
}
