package zkconn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

func TestSessionWithoutTime(t *testing.T) {
	for _, timeout := range []int32{0, -1, -5, math.MinInt32} {
		bubble(t, func(_ int, p *remote) { p.greet(7, timeout) }, func(t *testing.T, s *Session) {
			err := s.Ready(testContext(t))
			if !errors.As(err, new(*NoServerError)) || !strings.Contains(err.Error(), "rejected the request to open a session") {
				t.Errorf("%d ms: %v", timeout, err)
			}
		})
	}
}

// If a server answers only pings, a request fails after the session timeout.
func TestUnansweredRequest(t *testing.T) {
	bubble(t, func(_ int, p *remote) { p.host(func(int32, int32) bool { return true }) }, func(t *testing.T, s *Session) {
		begin := time.Now()
		err := Exec(testContext(t), s, GetData("/x"))
		if !errors.As(err, new(*LostError)) || !strings.Contains(err.Error(), "/x (the server did not answer a request within 30s, although it answers pings)") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took < sessionTimeout || took > sessionTimeout*3/2 {
			t.Errorf("after %s", took)
		}
	})
}

// A server that answers requests one by one is not given up, however long they take together;
// nor is one that was idle for long before.
func TestSlowProgress(t *testing.T) {
	serve := func(_ int, p *remote) {
		late := make(chan int32, 10)
		defer close(late)
		go func() { // ends when the channel is closed
			for xid := range late {
				time.Sleep(sessionTimeout * 9 / 10)
				p.reply(xid, codeOK)
			}
		}()
		p.host(func(xid, _ int32) bool { late <- xid; return true })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		p, err := s.Pipe(testContext(t), "/")
		zktest.Must(t, err)
		time.Sleep(3 * sessionTimeout)
		var all []*Pending[Node]
		for range 5 {
			all = append(all, Add(p, GetData("/x")))
		}
		for i, a := range all {
			if _, err := a.Wait(testContext(t)); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
	})
}

func TestReplyNobodyAskedFor(t *testing.T) {
	for _, xid := range []int32{0, 5, -3, -4, xidBase - 1, xidBase + 99} {
		bubble(t, func(_ int, p *remote) { p.host(func(int32, int32) bool { return p.reply(xid, codeOK) }) }, func(t *testing.T, s *Session) {
			err := Exec(testContext(t), s, SetData("/x", nil, -1))
			if !errors.As(err, new(*LostError)) || !strings.Contains(err.Error(), fmt.Sprintf("never sent (xid %d)", xid)) {
				t.Errorf("%d: %v", xid, err)
			}
			if !strings.Contains(err.Error(), "unknown whether it took effect") {
				t.Errorf("%d: %v", xid, err)
			}
		})
	}
}

func TestReplyOverTheLimit(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.host(func(int32, int32) bool {
			_, err := p.Write([]byte{0x12, 0xc0, 0, 0}) // 300 MiB
			return err == nil
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		err := Exec(testContext(t), s, GetData("/big"))
		if err == nil || !strings.Contains(err.Error(), "/big (the server sent a reply of 314572800 bytes, which exceeds the limit of 268435456 bytes)") {
			t.Errorf("got %v", err)
		}
	})
}

// A client retries more and more rarely at a server that grants no session, and does not report
// an expiry.
func TestNoSessionGranted(t *testing.T) {
	var tries atomic.Int64
	bubble(t, func(_ int, p *remote) { tries.Add(1); p.greet(0, 0) }, func(t *testing.T, s *Session) {
		err := s.Ready(testContext(t))
		if !errors.As(err, new(*NoServerError)) || !strings.Contains(err.Error(), "rejected the request to open a session") {
			t.Errorf("got %v", err)
		}
		time.Sleep(5 * time.Minute)
		if n := tries.Load(); n > 100 {
			t.Errorf("%d connections in five minutes", n)
		}
		if e := s.Events(); len(e) > 0 {
			t.Errorf("there were %v", e)
		}
	})
}

// If a server grants sessions and forgets them at once, the client does not reconnect in a tight
// loop.
func TestSessionsForgottenAtOnce(t *testing.T) {
	expired := 0
	serve := func(n int, p *remote) { p.greet(int64(1-n%2), int32(sessionTimeout.Milliseconds())) }
	bubble(t, serve, func(t *testing.T, s *Session) {
		time.Sleep(5 * time.Minute)
		for _, e := range s.Events() {
			if e.State == Expired {
				expired++
			}
		}
		if expired < 10 || expired > 100 {
			t.Errorf("%d expiries in five minutes", expired)
		}
	})
}

// After the expiry of a session that worked, the client opens the next one at once, however many
// have expired.
func TestExpiryCostsNoTime(t *testing.T) {
	serve := func(n int, p *remote) {
		if n%2 == 1 {
			p.greet(0, 0)
			return
		}
		p.host(func(xid, _ int32) bool { // works for a while, then is lost
			time.Sleep(2 * time.Second)
			return p.reply(xid, codeOK) && false
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		for range 5 {
			zktest.Must(t, Exec(testContext(t), s, Sync("/")))
			begin := time.Now()
			synctest.Wait() // until the session has expired and everything immediate is done
			if s.State() != StateConnected || time.Since(begin) > 0 {
				t.Fatalf("no next session at once; %s", s.State())
			}
		}
		if n := len(s.Events()); n != 16 { // SyncConnected, and five times Disconnected, Expired, SyncConnected
			t.Errorf("%d events", n)
		}
	})
}

func TestReadOnlyHint(t *testing.T) {
	refuse := func(_ int, p *remote) {
		if _, _, ok := p.request(); ok {
			var e jute.Encoder
			e.Int(0)
			e.Long(0)
			e.Int(int32(NotReadOnly))
			p.frame(e.B)
		}
	}
	for _, asked := range []bool{false, true} {
		bubbleWith(t, Config{Servers: "127.0.0.1:1", ReadOnly: asked}, refuse, func(t *testing.T, s *Session) {
			err := s.Ready(testContext(t))
			if err == nil || !strings.Contains(err.Error(), "rejected the session") || strings.Contains(err.Error(), "add -r") == asked {
				t.Errorf("read-only %t: %v", asked, err)
			}
		})
	}
}

// If the socket accepts no data, callers can still give up at once, and learn whether their
// request may have had an effect.
func TestBlockedSocket(t *testing.T) {
	withMutedServer(t, func(t *testing.T, s *Session, _ func() error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p, err := s.Pipe(ctx, "/")
		zktest.Must(t, err)
		stay, err := s.Ensemble().Pin(ctx)
		zktest.Must(t, err)
		why := errors.New("enough")
		begin := time.Now()
		first := Add(p, Delete("/sent", -1)) // its write has begun
		synctest.Wait()
		behind := make([]*Pending[Written], 100)
		for i := range behind {
			behind[i] = Add(p, Create("/unsent", make([]byte, 1<<15), nil, CreateMode{}))
		}
		got := make(chan error)
		go func() { got <- s.AddAuth(ctx, "digest", []byte("a:b")) }()
		go func() { got <- Exec(ctx, s, Delete("/unsent", -1)) }()
		go func() { got <- Exec(ctx, stay, Delete("/unsent", -1)) }()
		synctest.Wait()
		cancel(why)
		if _, err := first.Wait(ctx); !errors.As(err, new(*AbandonedError)) || !errors.Is(err, why) {
			t.Errorf("what was sent: %v", err)
		}
		unsent := func(err error) {
			t.Helper()
			if !errors.As(err, new(*UnsentError)) || !errors.Is(err, why) || errors.As(err, new(*AbandonedError)) || strings.Contains(err.Error(), "unknown") {
				t.Errorf("what was not sent: %v", err)
			}
		}
		for range 3 {
			unsent(<-got)
		}
		for _, b := range behind {
			_, err := b.Wait(ctx)
			unsent(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %s", took)
		}
	})
}

// When the connection is lost, queued requests are known not to have been sent; the outcome of a
// request being written is unknown.
func TestBrokenWhileQueued(t *testing.T) {
	withMutedServer(t, func(t *testing.T, s *Session, hangUp func() error) {
		ctx := testContext(t)
		p, err := s.Pipe(ctx, "/")
		zktest.Must(t, err)
		first := Add(p, Delete("/a", -1))
		synctest.Wait()
		second := Add(p, Delete("/b", -1))
		zktest.Check(t, hangUp())
		if _, err := first.Wait(ctx); !errors.As(err, new(*LostError)) || !errors.Is(err, ConnectionLoss) {
			t.Errorf("what was sent: %v", err)
		}
		_, err = second.Wait(ctx)
		if !errors.As(err, new(*UnsentError)) || !errors.Is(err, ConnectionLoss) || !strings.Contains(err.Error(), "/b") || strings.Contains(err.Error(), "unknown") {
			t.Errorf("what was not sent: %v", err)
		}
	})
}

func TestMissingChroot(t *testing.T) {
	serve := func(_ int, p *remote) { p.host(func(xid, _ int32) bool { return p.reply(xid, NoNode) }) }
	bubbleWith(t, Config{Servers: "127.0.0.1:1/app"}, serve, func(t *testing.T, s *Session) {
		ctx := testContext(t)
		stay, err := s.Ensemble().Pin(ctx)
		zktest.Must(t, err)
		get := Exec(ctx, s, GetData("/"))
		made := Exec(ctx, s, Create("/a", nil, nil, CreateMode{}))
		_, list := stay.Children(ctx, "/", nil)
		for path, err := range map[string]error{"/": get, "/a": made, "/ ": list, "/c": stay.CreateContainer(ctx, "/c", OpenACL())} {
			want := "Node does not exist: " + strings.TrimSpace(path) + " (the chroot /app does not exist)"
			if !errors.Is(err, NoNode) || err.Error() != want {
				t.Errorf("%v; want %q", err, want)
			}
		}
		for want, err := range map[string]error{
			"Node does not exist: /a":                                  Exec(ctx, s, Delete("/a", -1)),
			"Node does not exist: /a/b (its parent /a does not exist)": stay.CreateContainer(ctx, "/a/b", OpenACL()),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("%v; want %q", err, want)
			}
		}
	})
}

// A server that answers pings, but never a request of a newer kind, is given up twice; then the
// client treats that kind as unsupported.
func TestUnansweredNewRequest(t *testing.T) {
	asked := 0
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool {
			if op == jute.OpWhoAmI || op == jute.OpCreateContainer {
				asked++
				return true
			}
			return p.reply(xid, codeOK)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		for range 3 {
			err := Exec(t.Context(), s, WhoAmI())
			if !errors.Is(err, Unimplemented) || !strings.Contains(err.Error(), "127.0.0.1:1 does not answer whoAmI, which it does not support") {
				t.Errorf("got %v", err)
			}
		}
		if asked != 2 {
			t.Errorf("it was asked %d times", asked)
		}
		pin, err := s.Ensemble().Pin(t.Context())
		zktest.Must(t, err)
		begin := time.Now()
		if err := pin.CreateContainer(t.Context(), "/c", OpenACL()); err != nil && !strings.Contains(err.Error(), "cut short") {
			t.Error(err)
		}
		if took := time.Since(begin); asked != 3 || took > 2*sessionTimeout {
			t.Errorf("a container was asked for %d times, for %s", asked-2, took)
		}
	})
}
