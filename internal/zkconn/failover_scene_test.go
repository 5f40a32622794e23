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
)

// scene is a few servers of which the first one connected to, once it is told to,
// answers late, or not at all.
type scene struct {
	t      *testing.T
	others func(n int, p *remote) bool // what the nth connection does before it serves; false: it ends
	refuse func(n int) bool
	first  func(p *remote) // sees the first connection; may be nil
	hangs  bool            // the first reads no further while it does not answer, until deaf is closed

	release func() // of the guard

	mu     sync.Mutex
	delay  time.Duration // of every answer of the first
	dialed []string
	deaf   chan struct{}
	closed chan struct{} // when the first connection has ended
	heard  chan struct{} // for others to tell that they are asked for the session
}

const never = time.Hour

// play runs a test with a guarded session on the servers.
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
			s.closed, s.deaf, s.heard = make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
		}
		if n > 0 && s.refuse != nil && s.refuse(n) {
			return nil, errors.New("refused")
		}
		return pipeTo(n, s.serve), nil
	}
	bubbleWith(t, cfg, nil, func(t *testing.T, c *Session) {
		p, err := c.Ensemble().Pin(limited(t))
		if err != nil {
			t.Fatal(err)
		}
		s.release = p.Guard()
		defer s.release()
		if err := p.Sync(limited(t), "/"); err != nil {
			t.Fatal(err)
		}
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
	go func() { // ends with the connection
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
			<-s.deaf
		}
	}
}

// late sets how late the first server answers, unless d is zero, and returns it.
func (s *scene) late(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d != 0 {
		s.delay = d
	}
	return s.delay
}

// connections is how many have been asked for.
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

// states are the changes of the session so far.
func states(c *Session) (all []KeeperState) {
	for _, e := range c.Events() {
		all = append(all, e.State)
	}
	return all
}

// stayed wants a session that never noticed anything.
func (s *scene) stayed(t *testing.T, c *Session) {
	t.Helper()
	if got := states(c); s.dropped() || !slices.Equal(got, []KeeperState{syncConnected}) {
		t.Errorf("dropped: %t; events %v", s.dropped(), got)
	}
}
