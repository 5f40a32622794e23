package zkconn

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// An awayServer is a server that can be made unreachable.
type awayServer struct {
	gone  atomic.Bool
	tries atomic.Int32 // number of connection attempts while it is gone
	conn  atomic.Pointer[net.Conn]
}

func (a *awayServer) dial(context.Context, string, string) (net.Conn, error) {
	if a.gone.Load() {
		a.tries.Add(1)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	c := pipeTo(0, func(_ int, p *remote) {
		p.host(func(xid, _ int32) bool { return p.reply(xid, codeOK) })
	})
	a.conn.Store(&c)
	return c, nil
}

// leaveFor makes the server unreachable for a while.
func (a *awayServer) leaveFor(d time.Duration) {
	a.gone.Store(true)
	(*a.conn.Load()).Close()
	time.AfterFunc(d, func() { a.gone.Store(false) })
}

// withAwayServer runs a test with a session whose connection has lasted for a while.
func withAwayServer(t *testing.T, test func(t *testing.T, s *Session, a *awayServer)) {
	a := new(awayServer)
	bubbleWith(t, Config{Servers: "127.0.0.1:1", dial: a.dial}, nil, func(t *testing.T, s *Session) {
		zktest.Must(t, s.Ready(testContext(t)))
		time.Sleep(2 * tooSoon)
		test(t, s, a)
	})
}

// backAfter waits for the next connection and returns how long that took.
func backAfter(t *testing.T, s *Session) time.Duration {
	t.Helper()
	begin := time.Now()
	for s.Info().Addr != "" { // the session notices the loss at once, but this goroutine may run earlier
		time.Sleep(time.Millisecond)
	}
	for s.Info().Addr == "" {
		time.Sleep(time.Millisecond)
		if time.Since(begin) > sessionTimeout {
			t.Fatal("there is no connection any more")
		}
	}
	return time.Since(begin)
}

// If something relies on the session, the client reconnects at most a short pause after the
// server is back. Otherwise the pauses grow.
func TestReconnectIsUrgent(t *testing.T) {
	const gone, slack = 5300 * time.Millisecond, 10 * time.Millisecond
	for name, rely := range map[string]func(t *testing.T, s *Session) (end func()){
		"a lock": func(t *testing.T, s *Session) func() {
			p, err := s.Ensemble().Pin(testContext(t))
			zktest.Must(t, err)
			return p.Guard()
		},
		"a watch": func(t *testing.T, s *Session) func() {
			zktest.Must(t, Exec(testContext(t), s, Exists("/a").Watch(true)))
			return func() {}
		},
		"an ephemeral znode": func(t *testing.T, s *Session) func() {
			l := s.current()
			underLock(l, func() error { l.ephemerals["/a"] = struct{}{}; return nil })
			return func() {}
		},
		"a transaction": func(_ *testing.T, s *Session) func() {
			txn := s.Begin()
			return func() { txn.Abort(errOver); txn.Abort(errOver) }
		},
		"a request that waits": func(t *testing.T, s *Session) func() {
			p, err := s.Ensemble().Pin(testContext(t))
			zktest.Must(t, err)
			done := make(chan error)
			wait := time.AfterFunc(gone/2, func() { done <- p.Await(testContext(t)) })
			return func() {
				if wait.Stop() {
					t.Error("nobody has waited")
				} else if err := <-done; err != nil {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withAwayServer(t, func(t *testing.T, s *Session, a *awayServer) {
				end := rely(t, s)
				a.leaveFor(gone)
				if took := backAfter(t, s); took < gone || took > gone+shortPause+slack {
					t.Errorf("connected again after %s, the server was away for %s", took, gone)
				}
				end()
				if l := s.current(); l.relying.Load() != 0 || l.wire.Guarded() || l.awaiting.Load() != 0 {
					t.Error("something relies on the session still")
				}
			})
		})
	}
	withAwayServer(t, func(t *testing.T, s *Session, a *awayServer) {
		a.leaveFor(gone)
		backAfter(t, s)
		if tries := a.tries.Load() / 2; tries > 3+int32(gone/(longPause-pauseJitter)) { // each pass over the servers tries each twice
			t.Errorf("an idle shell has tried %d times in %s", tries, gone)
		}
	})
}

// A server that is unreachable for longer than a session lasts is tried less often.
func TestReconnectIsNotUrgentForEver(t *testing.T) {
	withAwayServer(t, func(t *testing.T, s *Session, a *awayServer) {
		p, err := s.Ensemble().Pin(testContext(t))
		zktest.Must(t, err)
		defer p.Guard()()
		a.leaveFor(10 * sessionTimeout)
		time.Sleep(sessionTimeout)
		before := a.tries.Load()
		time.Sleep(sessionTimeout)
		if tries := (a.tries.Load() - before) / 2; tries > int32(sessionTimeout/(longPause-pauseJitter))+1 {
			t.Errorf("tried %d times in %s", tries, sessionTimeout)
		}
	})
}

// However short the pauses are, a request waits nearly a second for a server.
func TestRequestWaitsForAServer(t *testing.T) {
	withAwayServer(t, func(t *testing.T, s *Session, a *awayServer) {
		a.leaveFor(longPause * 3 / 4)
		time.Sleep(shortPause / 2) // the first pass over the servers has failed
		if err := Exec(testContext(t), s, Exists("/a")); err != nil {
			t.Errorf("the server was away for %s: %v", longPause*3/4, err)
		}
		a.leaveFor(sessionTimeout)
		time.Sleep(2 * longPause)
		begin := time.Now()
		if err := Exec(testContext(t), s, Exists("/a")); err == nil || time.Since(begin) > longPause+shortPause {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}
