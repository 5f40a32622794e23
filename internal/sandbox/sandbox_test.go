package sandbox

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	return c.must(opCreate, rawzk.Create(path, []byte("x"), rawzk.Open, flags)).String()
}

func (c *client) exists(path string) bool {
	c.t.Helper()
	return c.call(opExists, rawzk.PathWatch(path, false)).Err == 0
}

// event waits for the next frame, which has to be an event.
func (c *client) event() (typ int32, path string) {
	c.t.Helper()
	f, err := c.Recv()
	if err != nil || f.Xid != xidEvent {
		c.t.Fatalf("got %+v, %v instead of an event", f, err)
	}
	d := jute.NewDecoder(f.Body)
	typ, _, path = d.Int(), d.Int(), d.String()
	return typ, path
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

func TestSessionExpires(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		dying, alive := open(t, s), open(t, s)
		dying.create("/e", modeEphemeral)
		alive.call(opExists, rawzk.PathWatch("/e", true))
		start := time.Now()
		var typ int32
		for typ == 0 {
			time.Sleep(time.Second)
			frames, err := alive.Flush()
			if err != nil {
				t.Fatal(err)
			}
			if len(frames) > 0 {
				typ = jute.NewDecoder(frames[0].Body).Int()
			}
		}
		// Between the timeout and a tick later; then the second of the last ping.
		if took := time.Since(start); typ != eventNodeDeleted || took < 10*time.Second || took > 13*time.Second {
			t.Errorf("event %d after %v", typ, took)
		}
		dying.closed()
		if c := resume(t, s, dying.Session); c.Session.ID != 0 || c.Session.Timeout != 0 {
			t.Errorf("an expired session was resumed: %+v", c.Session)
		}
	})
}

func TestReconnectKeepsSession(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		first, other := open(t, s), open(t, s)
		first.create("/e", modeEphemeral)
		second := resume(t, s, first.Session)
		if second.Session.ID != first.Session.ID {
			t.Fatalf("got session %x instead of %x", second.Session.ID, first.Session.ID)
		}
		first.closed()
		if !other.exists("/e") {
			t.Error("the ephemeral node has not survived")
		}
		wrong := second.Session
		wrong.Passwd = make([]byte, 16)
		if c := resume(t, s, wrong); c.Session.ID != 0 {
			t.Error("a wrong password was accepted")
		}
		second = resume(t, s, second.Session)
		second.must(opCloseSession, nil)
		second.closed()
		if other.exists("/e") {
			t.Error("the ephemeral node has survived its session")
		}
	})
}

func TestClientFromTheFutureIsCut(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rawzk.Connect(nc, rawzk.Session{}, 1<<62); !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		pause time.Duration
		kept  bool
	}{{5 * time.Second, true}, {20 * time.Second, false}} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			c := open(t, s)
			c.create("/p", modePersistent)
			c.create("/e", modeEphemeral)
			s.Pause()
			c.closed()
			if _, err := s.Dial(); !errors.Is(err, ErrPaused) {
				t.Errorf("Dial while paused: %v", err)
			}
			time.Sleep(tt.pause)
			s.Resume()
			back := resume(t, s, c.Session)
			if kept := back.Session.ID == c.Session.ID; kept != tt.kept {
				t.Errorf("after %v the session is kept: %v", tt.pause, kept)
			}
			look := open(t, s)
			if !look.exists("/p") || look.exists("/e") != tt.kept {
				t.Errorf("after %v: the wrong nodes are left", tt.pause)
			}
		})
	}
}

func TestOwnClock(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := New(Options{Now: func() time.Time { return now }})
	defer s.Close()
	c := open(t, s)
	c.create("/e", modeEphemeral)
	now = now.Add(time.Hour)
	if len(s.sessions) != 1 {
		t.Error("the session expired before Tick")
	}
	s.Tick()
	if len(s.sessions) != 0 || s.tree.nodes["/e"] != nil {
		t.Error("the session outlived its timeout")
	}
	if s.zxid>>32 != 1_700_000_000 {
		t.Errorf("zxid %x does not come from the clock", s.zxid)
	}
}

func TestReaping(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		c := open(t, s)
		keepAlive := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				if _, err := c.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.must(opCreateContainer, rawzk.Create("/used", nil, rawzk.Open, modeContainer))
		c.must(opCreateContainer, rawzk.Create("/unused", nil, rawzk.Open, modeContainer))
		c.must(opCreateTTL, rawzk.CreateTTL("/brief", nil, rawzk.Open, modeTTL, 1000))
		c.must(opCreateTTL, rawzk.CreateTTL("/parent", nil, rawzk.Open, modeTTL, 1000))
		c.must(opCreateTTL, rawzk.CreateTTL("/long", nil, rawzk.Open, modeTTL, 3600_000))
		c.create("/used/a", 0)
		c.create("/parent/a", 0)
		keepAlive(65 * time.Second)
		for path, want := range map[string]bool{"/used": true, "/unused": true, "/brief": false, "/parent": true, "/long": true} {
			if c.exists(path) != want {
				t.Errorf("%s exists: %v", path, !want)
			}
		}
		c.must(opDelete, rawzk.PathInt("/used/a", -1))
		c.must(opDelete, rawzk.PathInt("/parent/a", -1))
		keepAlive(65 * time.Second)
		for path, want := range map[string]bool{"/used": false, "/unused": true, "/parent": false, "/long": true} {
			if c.exists(path) != want {
				t.Errorf("once empty, %s exists: %v", path, !want)
			}
		}
	})
}

func TestNoExtendedTypes(t *testing.T) {
	bubble(t, Options{NoExtendedTypes: true}, func(t *testing.T, s *Server) {
		c := open(t, s)
		if f := c.call(opCreateTTL, rawzk.CreateTTL("/t", nil, rawzk.Open, modeTTL, 1000)); code(f.Err) != codeUnimplemented {
			t.Errorf("error %d", f.Err)
		}
	})
}

// What ends the real server must not even make ours fail.
func TestWhatKillsTheRealOne(t *testing.T) {
	bubble(t, Options{EnforceQuota: true}, func(t *testing.T, s *Server) {
		c := open(t, s)
		for _, ttl := range []int64{-1, -5} {
			if f := c.call(opCreateTTL, rawzk.CreateTTL("/t", nil, rawzk.Open, modePersistent, ttl)); code(f.Err) != codeBadArguments {
				t.Errorf("TTL create of a persistent node: error %d", f.Err)
			}
		}
		c.create("/a", 0)
		c.create("/zookeeper/quota/a", 0)
		c.must(opCreate, rawzk.Create("/zookeeper/quota/a/zookeeper_limits", []byte("count=5,bytes=100"), rawzk.Open, 0))
		c.must(opCreate, rawzk.Create("/zookeeper/quota/a/zookeeper_stats", []byte("count=1,bytes=1"), rawzk.Open, 0))
		c.must(opSetData, rawzk.Set("/zookeeper/quota/a/zookeeper_stats", []byte("=;nonsense,,=1"), -1))
		c.call(opCreate, rawzk.Create("/a/b", nil, rawzk.Open, 0))
		c.call(opCreate, rawzk.Create("/zookeeper/quota/zookeeper_limits", nil, rawzk.Open, 0))
		c.call(opCreate, rawzk.Create("/zookeeper/quota/zookeeper_stats", nil, rawzk.Open, 0))
		c.create("/z", 0)
	})
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		action       Action
		done, closed bool
	}{{DropReply, true, false}, {Hang, false, false}, {CutBefore, false, true}, {CutAfter, true, true}} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			c, look := open(t, s), open(t, s)
			s.Inject(Fault{Op: opCreate, Skip: 1, Action: tt.action})
			c.create("/first", 0)
			if err := c.Send(7, opCreate, rawzk.Create("/second", nil, rawzk.Open, 0)); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			f, err := c.Recv()
			if closed := errors.Is(err, io.EOF); err == nil || closed != tt.closed {
				t.Errorf("fault %d: got %+v, %v", tt.action, f, err)
			}
			if look.exists("/second") != tt.done {
				t.Errorf("fault %d: the node exists: %v", tt.action, !tt.done)
			}
			if tt.action == DropReply {
				_ = c.SetReadDeadline(time.Time{})
				c.create("/third", 0)
			}
			if tt.action == Hang {
				_ = c.Send(-2, opPing, nil)
				time.Sleep(13 * time.Second) // its pings count for nothing
				if c := resume(t, s, c.Session); c.Session.ID != 0 {
					t.Error("a hanging session has not expired")
				}
			}
		})
	}
}

func TestMaxSessions(t *testing.T) {
	var logged []string
	opt := Options{MaxSessions: 2, Logf: func(format string, _ ...any) { logged = append(logged, format) }}
	bubble(t, opt, func(t *testing.T, s *Server) {
		open(t, s)
		leaving := open(t, s)
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rawzk.Connect(nc, rawzk.Session{}, 0); !errors.Is(err, io.EOF) {
			t.Errorf("a third session: %v", err)
		}
		if len(logged) != 1 || s.stats.rejected != 1 {
			t.Errorf("logged %q, rejected %d", logged, s.stats.rejected)
		}
		resume(t, s, leaving.Session).must(opCloseSession, nil)
		open(t, s)
		for range 2*2 + 16 {
			if nc, err := s.Dial(); err == nil {
				defer nc.Close()
			} else if !strings.Contains(err.Error(), "refused") {
				t.Error(err)
			}
		}
		if len(s.conns) > 2*2+16 {
			t.Errorf("%d connections", len(s.conns))
		}
	})
}

func TestSilentConnectionIsCut(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(start) != handshakeTime {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A client that does not read its events must not hold up who causes them, and
// must not fill the memory.
func TestSlowReader(t *testing.T) {
	bubble(t, Options{MaxQueue: 1 << 16}, func(t *testing.T, s *Server) {
		slow, busy := open(t, s), open(t, s)
		busy.create("/n", 0)
		slow.must(opAddWatch, rawzk.PathInt("/", 1))
		for range 3000 {
			busy.must(opSetData, rawzk.Set("/n", nil, -1))
		}
		synctest.Wait()
		for c := range s.conns {
			if c.sess.id == slow.Session.ID {
				t.Error("the slow reader is still connected")
			}
		}
		if n := s.queued.Load(); n != 0 {
			t.Errorf("%d bytes are still queued", n)
		}
	})
}

func TestTreeLimit(t *testing.T) {
	bubble(t, Options{MaxTreeBytes: 100_000}, func(t *testing.T, s *Server) {
		c := open(t, s)
		var err code
		for i := 0; err == codeOK; i++ {
			if i > 1000 {
				t.Fatal("the tree has no limit")
			}
			err = code(c.call(opCreate, rawzk.Create("/n", make([]byte, 1000), rawzk.Open, modeSequential)).Err)
		}
		if err != codeSystemError {
			t.Errorf("error %d", err)
		}
		ops := make([]rawzk.Op, 1000)
		for i := range ops {
			ops[i] = rawzk.Op{Op: opCreate, Body: rawzk.Create("/m", nil, rawzk.Open, modeSequential)}
		}
		before := len(s.tree.nodes)
		c.must(opMulti, rawzk.Multi(ops...))
		if len(s.tree.nodes) != before {
			t.Error("a multi went beyond the limit")
		}
		c.must(opDelete, rawzk.PathInt("/n0000000000", -1))
		c.create("/again", 0)
	})
}

func TestWatchLimit(t *testing.T) {
	bubble(t, Options{MaxWatchBytes: 10_000}, func(t *testing.T, s *Server) {
		c := open(t, s)
		for i := range 1000 {
			if err := c.Send(int32(i), opExists, rawzk.PathWatch("/"+strings.Repeat("x", i), true)); err != nil {
				return // cut off
			}
			if _, err := c.Recv(); err != nil {
				return
			}
		}
		t.Error("watches have no limit")
	})
}

func TestFrameLimits(t *testing.T) {
	for _, head := range []string{"\x00\x10\x00\x00", "\xff\xff\xff\xff", "\x00\x00\x00\x00", "SSH-", "GET "} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			c := open(t, s)
			if _, err := c.Conn.Conn.Write([]byte(head)); err != nil {
				t.Fatal(err)
			}
			c.closed()
		})
	}
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		c := open(t, s)
		most := maxFrame - 8 - len(rawzk.Create("/big", nil, rawzk.Open, 0))
		c.must(opCreate, rawzk.Create("/big", make([]byte, most), rawzk.Open, 0))
		if got := c.must(opGetData, rawzk.PathWatch("/big", false)).Buffer(); len(got) != most {
			t.Errorf("%d bytes came back", len(got))
		}
	})
}

func TestLoopbackOnly(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "nonsense"} {
		if a, err := s.Listen(addr); err == nil {
			t.Errorf("listens on %v for %q", a, addr)
		}
	}
	if ln, err := net.Listen("tcp", "0.0.0.0:0"); err == nil {
		if err := s.Serve(ln); err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("Serve: %v", err)
		}
		_ = ln.Close()
	}
	if _, err := s.Listen("localhost:0"); err != nil {
		t.Error(err)
	}
	_ = s.Close()
	if _, err := s.Listen("127.0.0.1:0"); !errors.Is(err, ErrClosed) {
		t.Errorf("Listen after Close: %v", err)
	}
	if _, err := s.Dial(); !errors.Is(err, ErrClosed) {
		t.Errorf("Dial after Close: %v", err)
	}
}

func TestServeEndsWithServer(t *testing.T) {
	s := New(Options{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: asked}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Recv(); err == nil {
		t.Error("the connection is still open")
	}
}

func TestWords(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	c := open(t, s)
	c.create("/e", modeEphemeral)
	c.must(opAddWatch, rawzk.PathInt("/e", 0))
	ask := func(word string) string {
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.WriteString(nc, word) }()
		b, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for word, want := range map[string][]string{
		"ruok": {"imok"}, "isro": {"rw"},
		"srvr": {"Zookeeper version: 3.8.0", "\nZxid: 0x", "\nMode: standalone\n", "\nNode count: 6\n"},
		"stat": {"Clients:\n /in-process[", "Mode: standalone"},
		"cons": {",sid=0x1", ",lop=ADDW,", ",to=10000,"},
		"dump": {"Session Sets (1)/(1):", "\n\t/e\n", "Connections dump:"},
		"wchs": {"1 connections watching 1 paths\nTotal watches:1\n"},
		"wchp": {"/e\n\t0x1"}, "wchc": {"\n\t/e\n"},
		"mntr": {"zk_server_state\tstandalone\n", "zk_znode_count\t6\n", "zk_ephemerals_count\t1\n"},
		"conf": {"tickTime=2000\n", "maxSessionTimeout=40000\n"},
		"envi": {"zookeeper.version=3.8.0"},
	} {
		got := ask(word)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", word, w, got)
			}
		}
	}
	for _, word := range []string{"srst", "crst"} {
		if got := ask(word); !strings.HasSuffix(got, " stats reset.\n") {
			t.Errorf("%s: %q", word, got)
		}
	}
	if got := ask("abcd"); got != "" {
		t.Errorf("abcd: %q", got)
	}
}

// Every session sees the events of all others in the one order of their zxids.
func TestConcurrentSessions(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 200
	dial := func() *client {
		nc, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := rawzk.Connect(nc, rawzk.Session{Timeout: asked}, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &client{t, c}
	}
	root := dial()
	root.create("/q", 0)
	var watchers []*client
	for range 3 {
		w := dial()
		w.must(opAddWatch, rawzk.PathInt("/q", 1))
		watchers = append(watchers, w)
	}
	done := make(chan bool)
	for range writers {
		w := dial()
		go func() {
			defer func() { done <- true }()
			for range each {
				if _, err := w.Call(opCreate, rawzk.Create("/q/n", nil, rawzk.Open, modeSequential)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	var seen [3][]string
	for i, w := range watchers {
		go func() {
			defer func() { done <- true }()
			for range writers * each {
				_, path := w.event()
				seen[i] = append(seen[i], path)
			}
		}()
	}
	for range writers + len(watchers) {
		<-done
	}
	if !slices.IsSorted(seen[0]) || !slices.Equal(seen[0], seen[1]) || !slices.Equal(seen[0], seen[2]) {
		t.Error("the watchers saw different orders")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	check(t, s)
}

// check looks for contradictions between the tree and the indexes over it.
func check(t testing.TB, s *Server) {
	t.Helper()
	fresh := newTree()
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
	if s.tree.bytes != int64(bytesUsed) {
		t.Fatalf("counted %d bytes, there are %d", s.tree.bytes, bytesUsed)
	}
	if len(s.tree.nodes[quotaPath].children) == 0 && s.tree.dataBytes != int64(data) {
		t.Fatalf("counted %d bytes of paths and data, there are %d", s.tree.dataBytes, data)
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
				if mode == watchRecursive {
					recursive++
				}
			}
		}
		if total != w.total || recursive != w.recursive || int64(size) != w.bytes {
			t.Fatalf("watches: counted %d, %d recursive, %d bytes; there are %d, %d, %d", w.total, w.recursive, w.bytes, total, recursive, size)
		}
	}
}
