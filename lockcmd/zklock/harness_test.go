package zklock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.M{M: m}) }

// client is one ZooKeeper client with a session of its own.
type client struct {
	*zk
	t *testing.T
}

type zk = zkconn.Session

// Session is part of zklock.Conn.
func (c client) Session(ctx context.Context) (zklock.Session, error) { return c.Pin(ctx) }

// patience bounds whatever should come soon, on a slow machine.
const patience = 20 * time.Second

func open(t *testing.T, addr string, timeout time.Duration) client {
	t.Helper()
	s, err := zkconn.Open(zkconn.Config{Servers: addr, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	c := client{s, t}
	t.Cleanup(c.close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c client) close() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.zk.Close(ctx); err != nil {
		c.t.Errorf("close: %v", err)
	}
}

// log collects what a lock tells.
type log struct {
	mu   sync.Mutex
	list []zklock.Status
	more chan struct{}
}

func newLog() *log { return &log{more: make(chan struct{})} }

func (l *log) note(s zklock.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
	close(l.more)
	l.more = make(chan struct{})
}

// wait waits until something fits and returns it.
func (l *log) wait(t *testing.T, what string, fits func(zklock.Status) bool) zklock.Status {
	t.Helper()
	late := time.After(patience)
	for seen := 0; ; {
		l.mu.Lock()
		list, more := l.list, l.more
		l.mu.Unlock()
		for ; seen < len(list); seen++ {
			if fits(list[seen]) {
				return list[seen]
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("%s never came; there were %v", what, list)
		}
	}
}

func (l *log) state(t *testing.T, s zklock.State) zklock.Status {
	t.Helper()
	return l.wait(t, string(s), func(st zklock.Status) bool { return st.State == s })
}

// soon ends with the test, or when patience does.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var roots struct {
	sync.Mutex
	n int
}

// root is a path of a lock that no other test uses.
func root() string {
	roots.Lock()
	defer roots.Unlock()
	roots.n++
	return fmt.Sprintf("/locks-%d/of/test", roots.n)
}
