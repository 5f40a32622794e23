package sandbox

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

func TestSessionExpires(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		dying, alive := open(t, s), open(t, s)
		dying.create("/e", modeEphemeral)
		alive.call(jute.OpExists, rawzk.PathWatch("/e", true))
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
		// Between the timeout and a tick later, plus a second between two pings.
		if took := time.Since(start); typ != eventNodeDeleted || took < 10*time.Second || took > 13*time.Second {
			t.Errorf("event %d after %v", typ, took)
		}
		dying.waitClosed()
		if c := resume(t, s, dying.Session); c.Session.ID != 0 || c.Session.Timeout != 0 {
			t.Errorf("an expired session was resumed: %+v", c.Session)
		}
	})
}

// As in ZooKeeper, sending credentials does not keep a session alive.
func TestCredentialsDoNotExtendSession(t *testing.T) {
	for _, op := range []int32{jute.OpAuth, jute.OpSASL} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			c := open(t, s)
			body := []byte{0, 0, 0, 0} // an empty token
			if op == jute.OpAuth {
				body = rawzk.Auth("digest", "a:b")
			}
			start := time.Now()
			var err error
			for err == nil && time.Since(start) < time.Minute {
				time.Sleep(time.Second)
				_, err = c.Call(op, body)
			}
			if took := time.Since(start); err == nil || took > 13*time.Second {
				t.Errorf("opcode %d: %v after %v", op, err, took)
			}
		})
	}
}

func TestExpire(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		c, look := open(t, s), open(t, s)
		c.create("/e", modeEphemeral)
		if !s.Expire(c.Session.ID) || s.Expire(c.Session.ID) {
			t.Error("Expire does not know its sessions")
		}
		c.waitClosed()
		if look.exists("/e") {
			t.Error("the ephemeral node is still there")
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
		first.waitClosed()
		if !other.exists("/e") {
			t.Error("the ephemeral node has not survived")
		}
		wrong := second.Session
		wrong.Passwd = make([]byte, 16)
		if c := resume(t, s, wrong); c.Session.ID != 0 {
			t.Error("a wrong password was accepted")
		}
		second = resume(t, s, second.Session)
		second.must(jute.OpCloseSession, nil)
		second.waitClosed()
		if other.exists("/e") {
			t.Error("the ephemeral node has survived its session")
		}
	})
}

func TestFutureZxidIsRejected(t *testing.T) {
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
			c.waitClosed()
			if _, err := s.Dial(); !errors.Is(err, errPaused) {
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
		c.must(jute.OpCreateContainer, rawzk.Create("/used", nil, rawzk.Open, modeContainer))
		c.must(jute.OpCreateContainer, rawzk.Create("/unused", nil, rawzk.Open, modeContainer))
		c.must(jute.OpCreateTTL, rawzk.CreateTTL("/brief", nil, rawzk.Open, modeTTL, 1000))
		c.must(jute.OpCreateTTL, rawzk.CreateTTL("/parent", nil, rawzk.Open, modeTTL, 1000))
		c.must(jute.OpCreateTTL, rawzk.CreateTTL("/long", nil, rawzk.Open, modeTTL, 3600_000))
		c.create("/used/a", 0)
		c.create("/parent/a", 0)
		keepAlive(65 * time.Second)
		for path, want := range map[string]bool{"/used": true, "/unused": true, "/brief": false, "/parent": true, "/long": true} {
			if c.exists(path) != want {
				t.Errorf("%s exists: %v", path, !want)
			}
		}
		c.must(jute.OpDelete, rawzk.PathInt("/used/a", -1))
		c.must(jute.OpDelete, rawzk.PathInt("/parent/a", -1))
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
		if f := c.call(jute.OpCreateTTL, rawzk.CreateTTL("/t", nil, rawzk.Open, modeTTL, 1000)); code(f.Err) != codeUnimplemented {
			t.Errorf("error %d", f.Err)
		}
	})
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		action       Action
		done, closed bool
	}{{DropReply, true, false}, {Hang, false, false}, {CutBefore, false, true}, {CutAfter, true, true}} {
		bubble(t, Options{}, func(t *testing.T, s *Server) {
			c, look := open(t, s), open(t, s)
			s.Inject(Fault{Op: jute.OpCreate, Skip: 1, Action: tt.action})
			c.create("/first", 0)
			if err := c.Send(7, jute.OpCreate, rawzk.Create("/second", nil, rawzk.Open, 0)); err != nil {
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
				_ = c.Send(-2, jute.OpPing, nil)
				time.Sleep(13 * time.Second) // the ping does not extend the session
				if c := resume(t, s, c.Session); c.Session.ID != 0 {
					t.Error("a hanging session has not expired")
				}
			}
		})
	}
}

// Once the sequence counter has reached its maximum, it repeats the last number.
func TestSetSequence(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, s *Server) {
		c := open(t, s)
		c.create("/dir", 0)
		if s.SetSequence("/none", 1) || !s.SetSequence("/dir", 1<<31-2) {
			t.Error("it mistakes which znode is there")
		}
		for _, want := range []string{"/dir/a-2147483646", "/dir/b-2147483647", "/dir/c-2147483647"} {
			if got := c.create(want[:7], 2); got != want {
				t.Errorf("created %s, want %s", got, want)
			}
		}
	})
}
