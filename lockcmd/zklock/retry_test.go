package zklock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

// fakeConnection is a Session whose connection and end a test controls.
type fakeConnection struct {
	Session
	changed, ended chan struct{}
	down           bool
}

func (c *fakeConnection) State(time.Time) SessionState {
	return SessionState{Timeout: time.Minute, Connected: !c.down, Changed: c.changed}
}

func (c *fakeConnection) Ended() <-chan struct{} { return c.ended }

func (c *fakeConnection) Await(ctx context.Context) error {
	if ended(c) {
		return zk.ErrSessionExpired
	}
	return ctx.Err()
}

// A server may reject a request because the session has expired before it closes the
// connection. retry then waits for the end of the session, and does not repeat the request
// in it.
func TestInsistWaitsForTheEndOfAnExpiredSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeConnection{changed: make(chan struct{}), ended: make(chan struct{})}
		asked := 0
		done := make(chan error, 1)
		go func() { // ends with the session
			done <- retry(t.Context(), c, func() error { asked++; return zk.ErrSessionExpired })
		}()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("it did not wait")
		}
		close(c.ended)
		close(c.changed)
		if err := <-done; !errors.Is(err, zk.ErrSessionExpired) || asked != 1 {
			t.Errorf("%v after %d requests", err, asked)
		}
	})
}

func TestInsist(t *testing.T) {
	c := &fakeConnection{changed: make(chan struct{}), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, want := range []error{nil, zk.ErrNoNode, zk.ErrNoAuth} {
		answers := []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrSessionMoved, want}
		got := retry(ctx, c, func() error {
			err := answers[0]
			answers = answers[1:]
			return err
		})
		if !errors.Is(got, want) || len(answers) > 0 {
			t.Errorf("%v with %d answers left, want %v", got, len(answers), want)
		}
	}
	asked := 0
	err := retry(ctx, c, func() error { asked++; cancel(); return zk.ErrConnectionClosed })
	if !errors.Is(err, zk.ErrConnectionClosed) || asked != 1 {
		t.Errorf("after the end of the context: %v, asked %d times", err, asked)
	}
}

// If a waiter is suspended after it has seen that no contender is ahead, and resumes when
// the lease has ended, the lock is presumed lost before its owner gets it (CASES.md, trap
// 18).
func TestHeldTooLate(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		down bool
		want State
	}{{0, false, Held}, {59 * time.Second, true, Suspended}, {time.Minute, false, PresumedLost}, {time.Hour, true, PresumedLost}} {
		s := &fakeConnection{changed: make(chan struct{}), ended: make(chan struct{}), down: c.down}
		e := newEntry(New(nil, "/lock", Options{}), s, Exclusive)
		e.clock.proof.prove(time.Now().Add(-c.age))
		h := newHold(e, 0)
		lease := h.lease(Exclusive)
		if got := lease.State().State; got != c.want || isClosed(lease.Lost()) != (c.want == PresumedLost) {
			t.Errorf("%v after the last proof: %s, lost %v", c.age, got, isClosed(lease.Lost()))
		}
		h.stopMonitor()
	}
}
