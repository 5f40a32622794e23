package sandbox

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// The server survives requests that crash ZooKeeper.
func TestSurvivesCrashInput(t *testing.T) {
	bubble(t, Options{EnforceQuota: true}, func(t *testing.T, s *Server) {
		c := open(t, s)
		for _, ttl := range []int64{-1, -5} {
			if f := c.call(jute.OpCreateTTL, rawzk.CreateTTL("/t", nil, rawzk.Open, modePersistent, ttl)); code(f.Err) != codeBadArguments {
				t.Errorf("TTL create of a persistent node: error %d", f.Err)
			}
		}
		c.create("/a", 0)
		c.create("/zookeeper/quota/a", 0)
		c.must(jute.OpCreate, rawzk.Create("/zookeeper/quota/a/zookeeper_limits", []byte("count=5,bytes=100"), rawzk.Open, 0))
		c.must(jute.OpCreate, rawzk.Create("/zookeeper/quota/a/zookeeper_stats", []byte("count=1,bytes=1"), rawzk.Open, 0))
		c.must(jute.OpSetData, rawzk.Set("/zookeeper/quota/a/zookeeper_stats", []byte("=;nonsense,,=1"), -1))
		c.call(jute.OpCreate, rawzk.Create("/a/b", nil, rawzk.Open, 0))
		c.call(jute.OpCreate, rawzk.Create("/zookeeper/quota/zookeeper_limits", nil, rawzk.Open, 0))
		c.call(jute.OpCreate, rawzk.Create("/zookeeper/quota/zookeeper_stats", nil, rawzk.Open, 0))
		c.create("/z", 0)
	})
}

func TestMaxSessions(t *testing.T) {
	bubble(t, Options{MaxSessions: 2}, func(t *testing.T, s *Server) {
		open(t, s)
		leaving := open(t, s)
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rawzk.Connect(nc, rawzk.Session{}, 0); !errors.Is(err, io.EOF) {
			t.Errorf("a third session: %v", err)
		}
		resume(t, s, leaving.Session).must(jute.OpCloseSession, nil)
		open(t, s)
		for range 2*2 + 16 {
			if nc, err := s.Dial(); err == nil {
				defer nc.Close()
			} else if !strings.Contains(err.Error(), "refused") {
				t.Error(err)
			}
		}
		synctest.Wait()
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
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(start) != handshakeTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestUnreadReplyIsDropped(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		nc, err := s.Dial()
		if err == nil {
			_, err = io.WriteString(nc, "srvr")
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(handshakeTimeout + time.Second)
		if b, err := io.ReadAll(nc); err != nil || len(b) > 0 {
			t.Errorf("still there: %q, %v", b, err)
		}
	})
}

// A client that does not read its events neither blocks the client that causes them nor
// fills the memory.
func TestSlowReader(t *testing.T) {
	bubble(t, Options{MaxQueue: 1 << 16}, func(t *testing.T, s *Server) {
		slow, busy := open(t, s), open(t, s)
		busy.create("/n", 0)
		slow.must(jute.OpAddWatch, rawzk.PathInt("/", 1))
		for range 3000 {
			busy.must(jute.OpSetData, rawzk.Set("/n", nil, -1))
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
			err = code(c.call(jute.OpCreate, rawzk.Create("/n", make([]byte, 1000), rawzk.Open, modeSequential)).Err)
		}
		if err != codeSystemError {
			t.Errorf("error %d", err)
		}
		ops := make([]rawzk.Op, 1000)
		for i := range ops {
			ops[i] = rawzk.Op{Op: jute.OpCreate, Body: rawzk.Create("/m", nil, rawzk.Open, modeSequential)}
		}
		before := len(s.tree.nodes)
		c.must(jute.OpMulti, rawzk.Multi(ops...))
		if len(s.tree.nodes) != before {
			t.Error("a multi went beyond the limit")
		}
		c.must(jute.OpDelete, rawzk.PathInt("/n0000000000", -1))
		c.create("/again", 0)
	})
}

func TestWatchLimit(t *testing.T) {
	bubble(t, Options{MaxWatchBytes: 10_000}, func(t *testing.T, s *Server) {
		c := open(t, s)
		for i := range 1000 {
			if err := c.Send(int32(i), jute.OpExists, rawzk.PathWatch("/"+strings.Repeat("x", i), true)); err != nil {
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
			c.waitClosed()
		})
	}
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		c := open(t, s)
		most := maxFrame - 8 - len(rawzk.Create("/big", nil, rawzk.Open, 0))
		c.must(jute.OpCreate, rawzk.Create("/big", make([]byte, most), rawzk.Open, 0))
		if got := c.must(jute.OpGetData, rawzk.PathWatch("/big", false)).Buffer(); len(got) != most {
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
	for _, addr := range []string{"localhost:0", "127.0.0.2:0"} {
		if _, err := s.Listen(addr); err != nil {
			t.Error(err)
		}
	}
	_ = s.Close()
	if _, err := s.Listen("127.0.0.1:0"); !errors.Is(err, errClosed) {
		t.Errorf("Listen after Close: %v", err)
	}
	if _, err := s.Dial(); !errors.Is(err, errClosed) {
		t.Errorf("Dial after Close: %v", err)
	}
}

func TestCloseEndsConnections(t *testing.T) {
	s := New(Options{})
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: requestedTimeout}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := c.Recv(); err == nil {
		t.Error("the connection is still open")
	}
	if nc, err := net.Dial("tcp", addr.String()); err == nil {
		_ = nc.Close()
		t.Error("the port is still open")
	}
}

// Every session gets the events in the order of their zxids.
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
		c, err := rawzk.Connect(nc, rawzk.Session{Timeout: 4 * requestedTimeout}, 0) // long, because nobody sends pings
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
		w.must(jute.OpAddWatch, rawzk.PathInt("/q", 1))
		watchers = append(watchers, w)
	}
	done := make(chan bool)
	for range writers {
		w := dial()
		go func() {
			defer func() { done <- true }()
			for range each {
				if _, err := w.Call(jute.OpCreate, rawzk.Create("/q/n", nil, rawzk.Open, modeSequential)); err != nil {
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
				f, err := w.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				d := jute.NewDecoder(f.Body)
				_, _ = d.Int(), d.Int() // type and state
				seen[i] = append(seen[i], d.String())
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

// The server's state stays consistent under load over TCP: requests of all kinds,
// connections that come and go, clients that do not read, pauses, faults, and Close while
// requests arrive.
func TestConsistentUnderLoad(t *testing.T) {
	s := New(Options{Tick: 20 * time.Millisecond, ReapEvery: 10 * time.Millisecond, MaxQueue: 1 << 14, MaxSessions: 50})
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan bool)
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 0))
			var last rawzk.Session
			for {
				select {
				case <-stop:
					return
				default:
				}
				nc, err := net.Dial("tcp", addr.String())
				if err != nil {
					return
				}
				last.Timeout = 40
				if rnd.IntN(3) == 0 {
					last = rawzk.Session{Timeout: 400}
				}
				c, err := rawzk.Connect(nc, last, 0)
				if err != nil {
					_ = nc.Close()
					continue
				}
				last = c.Session
				_ = c.SetDeadline(time.Now().Add(200 * time.Millisecond))
				if rnd.IntN(2) == 0 {
					go func() { _, _ = io.Copy(io.Discard, c.Conn) }()
				}
				for range rnd.IntN(300) {
					op := sampleRequests[rnd.IntN(len(sampleRequests))]
					if op.Op == jute.OpCloseSession && rnd.IntN(20) > 0 {
						continue
					}
					if c.Send(1, op.Op, op.Body) != nil {
						break
					}
				}
				_ = c.Close()
			}
		})
	}
	for range 40 {
		time.Sleep(20 * time.Millisecond)
		s.Inject(Fault{Action: Action(1 + rand.IntN(4)), Skip: rand.IntN(5)})
		s.Pause()
		s.Resume()
		s.mu.Lock()
		check(t, s)
		s.mu.Unlock()
	}
	_ = s.Close()
	close(stop)
	wg.Wait()
	check(t, s)
	if n := s.queued.Load(); n != 0 {
		t.Errorf("%d bytes are still queued", n)
	}
}
