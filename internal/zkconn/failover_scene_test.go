package zkconn

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A scene is a set of servers. The first connection answers late or not at all once the test
// calls late.
type scene struct {
	t      *testing.T
	others func(n int, p *remote) bool // runs before the nth connection serves; false closes the connection; may be nil
	refuse func(n int) bool            // reports whether to refuse the nth connection; may be nil
	first  func(p *remote)             // called with the first connection; may be nil
	hangs  bool                        // while it does not answer, the first connection stops reading until resume is closed

	release func() // ends the session's guard

	mu     sync.Mutex
	delay  time.Duration // of every answer on the first connection
	dialed []string
	resume chan struct{}
	closed chan struct{} // closed when the first connection has ended
	heard  chan struct{} // gets a value when another connection receives a connect request
}

const never = time.Hour

// play runs a test in virtual time with a guarded session on the servers.
func (s *scene) play(t *testing.T, servers string, test func(t *testing.T, c *Session, p *Pinned)) {
	t.Helper()
	s.t, s.dialed, s.delay = t, nil, 0
	cfg := Config{Servers: servers, ReadOnly: strings.HasPrefix(t.Name(), "TestFailoverReadOnly")}
	cfg.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dialed = append(s.dialed, addr)
		n := len(s.dialed) - 1
		if n == 0 {
			s.closed, s.resume, s.heard = make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
		}
		if n > 0 && s.refuse != nil && s.refuse(n) {
			return nil, errors.New("refused")
		}
		return pipeTo(n, s.serve), nil
	}
	bubbleWith(t, cfg, nil, func(t *testing.T, c *Session) {
		p, err := c.Ensemble().Pin(testContext(t))
		zktest.Must(t, err)
		s.release = p.Guard()
		defer s.release()
		zktest.Must(t, p.Sync(testContext(t), "/"))
		test(t, c, p)
	})
}

func (s *scene) serve(n int, p *remote) {
	switch {
	case n > 0:
		if s.others != nil && !s.others(n, p) {
			return
		}
	default:
		if s.first != nil {
			s.first(p)
		}
		if !p.greeted() {
			return
		}
		defer func() { close(s.closed) }()
	}
	asked, end := make(chan int32, 100), make(chan struct{})
	defer close(asked)
	defer close(end)
	go func() { // ends when the connection does
		for xid := range asked {
			if d := s.late(0); n == 0 && d > 0 {
				select {
				case <-time.After(d):
				case <-end:
				}
			}
			p.reply(xid, codeOK)
		}
	}()
	for {
		xid, _, ok := p.request()
		if !ok {
			return
		}
		asked <- xid
		if n == 0 && s.hangs && s.late(0) == never {
			<-s.resume
		}
	}
}

// late sets the delay of answers on the first connection, unless d is zero, and returns it.
func (s *scene) late(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d != 0 {
		s.delay = d
	}
	return s.delay
}

// connections returns the number of connections that were dialed.
func (s *scene) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dialed)
}

// dropped reports whether the first connection has ended.
func (s *scene) dropped() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// states returns the states in the session's events.
func states(c *Session) (all []KeeperState) {
	for _, e := range c.Events() {
		all = append(all, e.State)
	}
	return all
}

// stayed checks that the session kept its first connection and saw no other event than the
// connect.
func (s *scene) stayed(t *testing.T, c *Session) {
	t.Helper()
	if got := states(c); s.dropped() || !slices.Equal(got, []KeeperState{syncConnected}) {
		t.Errorf("dropped: %t; events %v", s.dropped(), got)
	}
}
