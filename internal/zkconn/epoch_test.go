package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// hostAs is like host for a session with the given id and timeout. It records the requests.
func (p *remote) hostAs(id int64, timeout time.Duration, asked *requests, answer func(xid, op int32) bool) {
	if p.greet(id, int32(timeout.Milliseconds())) {
		p.serve(asked, answer)
	}
}

func (p *remote) serve(asked *requests, answer func(xid, op int32) bool) {
	for {
		xid, op, ok := p.request()
		switch {
		case !ok:
			return
		case xid < xidBase:
			ok = p.reply(xid, codeOK)
		default:
			asked.add(op)
			ok = answer(xid, op)
		}
		if !ok {
			return
		}
	}
}

// requests records the opcodes of the requests that arrived.
type requests struct {
	mu  sync.Mutex
	ops []int32
}

func (r *requests) add(op int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

func (r *requests) all() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// replyCreated answers a create request with the created path.
func (p *remote) replyCreated(xid int32, path string) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(0)
	e.String(path)
	e.B = append(e.B, make([]byte, 100)...)
	return p.frame(e.B)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A reconnect that yields another session ends the old session: everything that relies on it
// ends and is reported, and nothing of it continues in the new session.
func TestAnotherSessionEndsTheOldOne(t *testing.T) {
	var asked [2]requests
	var first *remote
	serve := func(n int, p *remote) {
		if n == 0 {
			first = p
			p.hostAs(1, sessionTimeout, &asked[0], func(xid, op int32) bool {
				if op == jute.OpCreate || op == jute.OpCreate2 {
					return p.replyCreated(xid, "/mine")
				}
				return p.reply(xid, codeOK)
			})
			return
		}
		p.hostAs(2, sessionTimeout/3, &asked[1], func(xid, _ int32) bool { return p.reply(xid, codeOK) })
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		ctx := testContext(t)
		old, err := s.Ensemble().Pin(ctx)
		zktest.Must(t, err)
		zktest.Must(t, Exec(ctx, s, Create("/mine", nil, OpenACL(), CreateMode{Ephemeral: true})))
		wake := make(chan zk.EventType, 1)
		watched := Exec(ctx, s, GetData("/w").Watch(true))
		_, _, woken := old.Get(ctx, "/w", wake)
		zktest.Must(t, errors.Join(watched, woken))
		open := s.Begin()
		joined := make(chan error)
		go func() { joined <- Exec(open.Context(ctx), s, Delete("/q", -1)) }() // ends when the transaction does
		synctest.Wait()
		waiting := make(chan error, 1)
		first.Close()
		synctest.Wait()
		go func() { waiting <- old.Sync(ctx, "/") }()
		time.Sleep(2 * tooSoon)
		synctest.Wait()

		if err := <-waiting; !errors.Is(err, SessionExpired) {
			t.Errorf("a request that waited in the old session: %v", err)
		}
		if !isClosed(old.Ended()) || old.Connected() || !old.State(time.Now()).Begun.IsZero() || old.State(time.Now()).Timeout != sessionTimeout {
			t.Errorf("the old session has ended: %t, is connected: %t, since %v; its timeout is %v",
				isClosed(old.Ended()), old.Connected(), old.State(time.Now()).Begun, old.State(time.Now()).Timeout)
		}
		if sent := old.State(time.Now()).Sent; !sent.IsZero() {
			t.Error("answers of the new session count for the old one")
		}
		if !old.State(time.Now()).EndsWithConnection {
			t.Error("the ensemble does not count as one whose sessions end with their connections")
		}
		if i := s.Info(); i.ID != 2 || s.State() != StateConnected {
			t.Errorf("session %#x, %s", i.ID, s.State())
		}
		if _, err := open.Commit(ctx); !errors.Is(err, SessionExpired) {
			t.Errorf("a commit in another session: %v", err)
		}
		if err := <-joined; !errors.Is(err, SessionExpired) {
			t.Errorf("a line of the transaction: %v", err)
		}
		events := s.Events()
		var states []KeeperState
		for _, e := range events {
			states = append(states, e.State)
		}
		if want := []KeeperState{syncConnected, disconnected, Expired, syncConnected}; !slices.Equal(states, want) {
			t.Fatalf("events %v, want %v", states, want)
		}
		if gone := events[2].Gone; !slices.Equal(gone, []string{"/mine"}) {
			t.Errorf("ephemeral znodes that are gone: %q", gone)
		}
		if s.Watching() || len(asked[1].all()) > 0 {
			t.Errorf("the new session was asked for %v, and watches: %t", asked[1].all(), s.Watching())
		}
		if err := Exec(ctx, s, Sync("/")); err != nil {
			t.Errorf("a request in the new session: %v", err)
		}
	})
}

// If a server accepts each connection with a new session and ends both at once, zksh does not
// reconnect in a tight loop.
func TestAnotherSessionEachTime(t *testing.T) {
	var tries atomic.Int64
	serve := func(n int, p *remote) { tries.Add(1); p.greet(int64(n+1), int32(sessionTimeout.Milliseconds())) }
	bubble(t, serve, func(t *testing.T, s *Session) {
		time.Sleep(5 * time.Minute)
		if n := tries.Load(); n < 10 || n > 400 {
			t.Errorf("%d connections in five minutes", n)
		}
	})
}

// A connect reply with a timeout of 0 or less is an expiry, whatever its session id and protocol
// version are.
func TestZeroTimeoutIsExpiry(t *testing.T) {
	for _, reply := range []struct {
		version int32
		id      int64
		timeout int32
	}{{0, 1, -1}, {0, 1, 0}, {0, 5, -1}, {0, 0, 0}, {0, 0, -1}, {rejecting, 1, -1}, {rejecting, 9, -1}, {0, -1, -1 << 31}} {
		var asked requests
		var first *remote
		serve := func(n int, p *remote) {
			switch n {
			case 0:
				first = p
				p.hostAs(1, sessionTimeout, &asked, func(xid, _ int32) bool { return p.reply(xid, codeOK) })
			case 1:
				p.answerConnect(reply.version, reply.id, reply.timeout)
			default:
				p.hostAs(7, sessionTimeout, &asked, func(xid, _ int32) bool { return p.reply(xid, codeOK) })
			}
		}
		bubble(t, serve, func(t *testing.T, s *Session) {
			old, err := s.Ensemble().Pin(testContext(t))
			zktest.Must(t, err)
			first.Close()
			time.Sleep(2 * tooSoon)
			synctest.Wait()
			if got, want := states(s), []KeeperState{syncConnected, disconnected, Expired, syncConnected}; !slices.Equal(got, want) {
				t.Errorf("%+v: events %v, want %v", reply, got, want)
			}
			if !isClosed(old.Ended()) || s.Info().ID != 7 {
				t.Errorf("%+v: ended %t, session %#x", reply, isClosed(old.Ended()), s.Info().ID)
			}
			if old.State(time.Now()).EndsWithConnection {
				t.Errorf("%+v: an expiry says nothing of other sessions", reply)
			}
		})
	}
}

// If a server has no leader, the client moves to the next server, and the session does not
// expire.
func TestServerWithoutLeader(t *testing.T) {
	for _, reply := range []struct {
		id      int64
		timeout int32
	}{{-1, 30000}, {0, 30000}, {9, 30000}} {
		var asked requests
		var first *remote
		var n int
		cfg := Config{Servers: "127.0.0.1:1,127.0.0.1:2"}
		var serving string
		cfg.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
			n++
			return pipeTo(n, func(n int, p *remote) {
				switch {
				case n == 1 || addr != serving && serving != "":
					p.answerConnect(rejecting, reply.id, reply.timeout)
					return
				case serving == "":
					serving = addr
				}
				first = p
				p.hostAs(1, sessionTimeout, &asked, func(xid, _ int32) bool { return p.reply(xid, codeOK) })
			}), nil
		}
		bubbleWith(t, cfg, nil, func(t *testing.T, s *Session) {
			old, err := s.Ensemble().Pin(testContext(t))
			zktest.Must(t, err)
			serving = map[string]string{"127.0.0.1:1": "127.0.0.1:2", "127.0.0.1:2": "127.0.0.1:1"}[serving]
			first.Close()
			time.Sleep(5 * tooSoon)
			synctest.Wait()
			if got, want := states(s), []KeeperState{syncConnected, disconnected, syncConnected}; !slices.Equal(got, want) {
				t.Errorf("%+v: events %v, want %v", reply, got, want)
			}
			if isClosed(old.Ended()) || s.Info().ID != 1 || s.Info().Addr != serving {
				t.Errorf("%+v: ended %t, session %#x at %s", reply, isClosed(old.Ended()), s.Info().ID, s.Info().Addr)
			}
		})
	}
}

// The protocol version that rejects a session is ignored if the reply confirms our session.
func TestRejectingVersionWithOurSession(t *testing.T) {
	var asked requests
	var first *remote
	serve := func(n int, p *remote) {
		if n == 0 {
			first = p
			p.hostAs(1, sessionTimeout, &asked, func(xid, _ int32) bool { return p.reply(xid, codeOK) })
		} else if p.answerConnect(rejecting, 1, int32(sessionTimeout.Milliseconds())) {
			p.serve(&asked, func(xid, _ int32) bool { return p.reply(xid, codeOK) })
		}
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		old, err := s.Ensemble().Pin(testContext(t))
		zktest.Must(t, err)
		first.Close()
		time.Sleep(2 * tooSoon)
		synctest.Wait()
		if got, want := states(s), []KeeperState{syncConnected, disconnected, syncConnected}; !slices.Equal(got, want) || isClosed(old.Ended()) {
			t.Errorf("events %v, want %v; ended: %t", got, want, isClosed(old.Ended()))
		}
	})
}

// If no server has a leader, the error names each server with the reason.
func TestNoLeaderAnywhere(t *testing.T) {
	for _, timeout := range []int32{30000, 0, -1} {
		serve := func(_ int, p *remote) { p.answerConnect(rejecting, -1, timeout) }
		bubble(t, serve, func(t *testing.T, s *Session) {
			err := s.Ready(testContext(t))
			if !errors.As(err, new(*NoServerError)) || !strings.Contains(err.Error(), "127.0.0.1:1: the server has no leader") {
				t.Errorf("%d ms: %v", timeout, err)
			}
			if e := s.Events(); len(e) > 0 {
				t.Errorf("events %v", e)
			}
		})
	}
}
