package zkconn

import (
	"errors"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// An answer of SessionExpired ends the session, even if the server keeps the connection open.
func TestExpiredAnswerEndsTheSession(t *testing.T) {
	serve := func(n int, p *remote) {
		if !p.greet(int64(n+1), int32(sessionTimeout.Milliseconds())) {
			return
		}
		for {
			xid, op, ok := p.request()
			code := codeOK
			if n == 0 && op == jute.OpExists {
				code = SessionExpired
			}
			if !ok || !p.reply(xid, code) {
				return
			}
		}
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		first, err := s.Ensemble().Pin(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Exists(testContext(t), "/a"); !errors.Is(err, SessionExpired) {
			t.Errorf("got %v", err)
		}
		select {
		case <-first.Ended():
		case <-time.After(time.Second):
			t.Error("the session goes on")
		}
		if _, _, err := first.Get(testContext(t), "/a", nil); !errors.Is(err, SessionExpired) {
			t.Errorf("another request in that session: %v", err)
		}
		next, err := s.Ensemble().Pin(testContext(t))
		if err != nil || next.ID() == first.ID() {
			t.Fatalf("session %v, %v", next, err)
		}
		if _, err := next.Exists(testContext(t), "/a"); err != nil {
			t.Error(err)
		}
		var expired int
		for _, e := range s.Events() {
			if e.State == Expired {
				expired++
			}
		}
		if expired != 1 {
			t.Errorf("told %d times of the expiry", expired)
		}
	})
}
