package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A waiter keeps its place while it has no connection, and starts again when its session has
// ended.
func TestSemaphoreOutage(t *testing.T) {
	t.Parallel()
	for _, expires := range []bool{false, true} {
		t.Run(fmt.Sprint("expires ", expires), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			holder := s.contender("", longTimeout, 1)
			lease := holder.acquire()
			proxy := zktest.NewProxy(t, s.addr)
			timeout := longTimeout
			if expires {
				timeout = 4 * tick
			}
			waiting := s.contender(proxy.Addr(), timeout, 1).queue("leases")
			from := waiting.c.log.len()
			proxy.Refuse(true)
			proxy.Cut()
			if expires {
				zktest.Eventually(t, "the session has expired", func() bool { return len(s.below("leases")) == 1 })
			}
			if !expires { // the event is missed
				holder.release(lease)
			}
			proxy.Refuse(false)
			if expires {
				waiting.c.log.waitFor(t, from, "requeued", func(st zklock.Status) bool { return st.State == zklock.Requeued })
				waiting.c.waitIn("leases", from)
				holder.release(lease)
			}
			waiting.c.release(waiting.awaitLease())
			if again := slices.Contains(waiting.c.log.states()[from:], zklock.Requeued); again != expires {
				t.Errorf("it started again: %t", again)
			}
			s.checkNothingLeft()
		})
	}
}

// If the server rejects the release of the mutex, nobody else can acquire a lease. So Acquire
// fails, until the release succeeds.
func TestSemaphoreMutexCannotBeReleased(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	s.createWithParents(s.path+"/locks", zookeeper.WorldACL(zookeeper.PermAll&^zookeeper.PermDelete))
	a := s.contender("", longTimeout, 1)
	for range 2 {
		if _, err := a.semaphore.Acquire(zktest.Within(t)); !errors.Is(err, zookeeper.ErrNoAuth) || !strings.Contains(err.Error(), "cannot delete "+s.path+"/locks/") {
			t.Errorf("the error is %v", err)
		}
		if leases, locks := s.below("leases"), s.below("locks"); len(leases) != 0 || len(locks) != 1 {
			t.Errorf("leases %q, locks %q", leases, locks)
		}
	}
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.SetACL(s.path+"/locks", zkconn.OpenACL(), -1)))
	a.release(a.acquire())
	s.checkNothingLeft()
}

// In each step of acquiring a lease, a fault happens. The lease is free from the beginning, or
// released while the contender waits for it.
func TestFaultsWhileLeaseIsAcquired(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		for _, f := range faults {
			t.Run(fmt.Sprint("waits ", waits, " ", f), func(t *testing.T) {
				t.Parallel()
				s := sharedScene(t)
				for at := 1; s.acquireWithFault(f, at, waits); at++ {
				}
				s.checkNothingLeft()
			})
		}
	}
}

// acquireWithFault acquires the only lease, with a fault in request number at. It reports whether
// there was such a request.
func (s *scene) acquireWithFault(f fault, at int, waits bool) (reached bool) {
	s.Helper()
	ctx, cancel := context.WithCancel(zktest.Within(s.T))
	defer cancel()
	other := s.contender("", longTimeout, 1)
	release := sync.OnceFunc(func() {})
	var notify func(zklock.Status)
	if waits {
		held := other.acquire()
		release = sync.OnceFunc(func() { other.release(held) })
		notify = func(st zklock.Status) {
			if st.State == zklock.Queued && strings.HasPrefix(st.Node, s.path+"/leases/") {
				go release() // ends with the release, which the test waits for
			}
		}
	}
	c := &faultyClient{client: open(s.T, s.addr, longTimeout), fault: f, at: at, cancel: cancel}
	semaphore := zklock.NewSemaphore(c, s.path, 1, zklock.Options{Notify: notify})
	lease, err := semaphore.Acquire(ctx)
	zktest.Must(s.T, semaphore.Drain(zktest.Within(s.T)))
	reached = c.dead() || c.sent() >= at
	dies := f == diesBefore || f == diesAfter
	switch {
	case err == nil:
		if leases := s.below("leases"); len(leases) != 1 || leases[0] != path.Base(lease.Node()) {
			s.Errorf("request %d: holds %s, but the leases are %q", at, lease.Node(), leases)
		}
		if _, err := other.semaphore.TryAcquire(zktest.Within(s.T)); !errors.Is(err, zklock.ErrBusy) {
			s.Errorf("request %d: another contender got %v", at, err)
		}
		if !dies {
			zktest.Must(s.T, lease.Unlock(zktest.Within(s.T)))
		}
	case f == requestLost || f == answerLost || !reached:
		s.Errorf("request %d: %v", at, err)
	case f == canceled:
		if release(); len(s.below("leases"))+len(s.below("locks")) > 0 {
			s.Errorf("request %d: canceled with %v, but there are leases %q, locks %q", at, err, s.below("leases"), s.below("locks"))
		}
	}
	release()
	zktest.Must(s.T, c.Close(zktest.Within(s.T))) // a session that has ended takes its znodes with it
	next, err := other.semaphore.TryAcquire(zktest.Within(s.T))
	zktest.Must(s.T, err)
	other.release(next)
	return reached
}

// sent returns the number of requests so far.
func (c *faultyClient) sent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}
