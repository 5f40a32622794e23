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
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A contender is a client with a semaphore.
type contender struct {
	client
	s         *scene
	log       *log
	semaphore *zklock.Semaphore
}

// contender opens a session to servers, or to the scene's server if servers is empty, and
// creates a semaphore with n leases.
func (s *scene) contender(servers string, timeout time.Duration, n int) *contender {
	s.Helper()
	if servers == "" {
		servers = s.addr
	}
	c := &contender{client: open(s.T, servers, timeout), s: s, log: newLog()}
	c.semaphore = zklock.NewSemaphore(c.client, s.path, n, zklock.Options{Data: []byte("me"), Notify: c.log.note})
	return c
}

// below returns the names of the znodes in a folder of the semaphore, leases or locks.
func (s *scene) below(folder string) []string {
	s.Helper()
	node := path.Join(s.path, folder)
	zktest.Must(s.T, zkconn.Exec(zktest.Within(s.T), s.observer, zkconn.Sync(node)))
	list, err := zkconn.Do(zktest.Within(s.T), s.observer, zkconn.List(node))
	if err != nil && !errors.Is(err, zkconn.NoNode) {
		s.Fatal(err)
	}
	slices.Sort(list.Names)
	return list.Names
}

// checkNothingLeft checks that neither leases nor contenders are left.
func (s *scene) checkNothingLeft() {
	s.Helper()
	if leases, locks := s.below("leases"), s.below("locks"); len(leases)+len(locks) > 0 {
		s.Errorf("left behind: leases %q, locks %q", leases, locks)
	}
	zktest.Eventually(s.T, "no watch is left", func() bool { return s.watches() == 0 })
}

// acquire acquires a lease that is free.
func (c *contender) acquire() *zklock.Lease {
	c.s.Helper()
	lease, err := c.semaphore.Acquire(zktest.Within(c.s.T))
	zktest.Must(c.s.T, err)
	return lease
}

func (c *contender) release(lease *zklock.Lease) {
	c.s.Helper()
	zktest.Must(c.s.T, lease.Unlock(zktest.Within(c.s.T)))
}

// A leaseWait is an attempt to acquire a lease.
type leaseWait struct {
	c      *contender
	cancel context.CancelFunc
	done   chan struct{}
	lease  *zklock.Lease
	err    error
}

// queue starts an attempt, and returns once it waits in the folder leases or locks.
func (c *contender) queue(folder string) *leaseWait {
	c.s.Helper()
	from := c.log.len()
	ctx, cancel := context.WithCancel(zktest.Within(c.s.T))
	w := &leaseWait{c: c, cancel: cancel, done: make(chan struct{})}
	go func() { // ends with ctx, which ends with the test
		defer close(w.done)
		w.lease, w.err = c.semaphore.Acquire(ctx)
	}()
	c.waitIn(folder, from)
	return w
}

// waitIn waits for a status, after the first from ones, that shows that the contender waits in a
// folder, and returns it.
func (c *contender) waitIn(folder string, from int) zklock.Status {
	c.s.Helper()
	return c.log.waitFor(c.s.T, from, "queued in "+folder, func(st zklock.Status) bool {
		return st.State == zklock.Queued && path.Base(path.Dir(st.Node)) == folder
	})
}

func (w *leaseWait) awaitLease() *zklock.Lease {
	w.c.s.Helper()
	isClosedSoon(w.c.s.T, "done waiting", w.done)
	zktest.Must(w.c.s.T, w.err)
	return w.lease
}

func (w *leaseWait) stillWaits() {
	w.c.s.Helper()
	isOpen(w.c.s.T, "done waiting", w.done)
}

func TestSemaphoreZnodes(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	a := s.contender("", longTimeout, 2)
	lease := a.acquire()
	if dir, name := path.Split(lease.Node()); dir != s.path+"/leases/" || !strings.HasPrefix(name, "_c_") || !strings.HasSuffix(name, "-lease-0000000000") {
		t.Errorf("the lease is %s", lease.Node())
	}
	node, err := zkconn.Do(zktest.Within(t), s.observer, zkconn.GetData(lease.Node()))
	if err != nil || string(node.Data) != "me" || node.Stat.Czxid != lease.Token() || node.Stat.EphemeralOwner != a.Info().ID {
		t.Errorf("znode %q %+v, %v; token %#x", node.Data, node.Stat, err, lease.Token())
	}
	if st := lease.State(); st.State != zklock.Held || st.Path != s.path || st.Mode != zklock.Counted || lease.Path() != s.path || lease.Mode() != zklock.Counted {
		t.Errorf("state %+v", st)
	}
	if locks := s.below("locks"); len(locks) > 0 {
		t.Errorf("the mutex is still held: %q", locks)
	}
	again := a.acquire() // the same owner: no second lease
	if again.Node() != lease.Node() || len(s.below("leases")) != 1 {
		t.Errorf("acquired again, it has %s and %s", lease.Node(), again.Node())
	}
	a.release(lease)
	if len(s.below("leases")) != 1 {
		t.Error("the lease was released too early")
	}
	a.release(again)
	s.checkNothingLeft()
	if _, err := s.contender("", longTimeout, 0).semaphore.Acquire(zktest.Within(t)); err == nil {
		t.Error("a semaphore without leases grants one")
	}
}

// Many contenders: there are never more than n holders, and all n leases are used.
func TestSemaphoreCounts(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			var mu sync.Mutex
			holders, full := 0, make(chan struct{}) // full is closed once there are n holders
			var contending sync.WaitGroup
			for range 10 {
				c := s.contender("", longTimeout, n)
				contending.Go(func() {
					for range 10 {
						lease, err := c.semaphore.Acquire(zktest.Within(t))
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						if holders++; holders > n {
							t.Errorf("%d hold a lease, want %d at most", holders, n)
						}
						if holders == n && !isClosed(full) {
							close(full)
						}
						mu.Unlock()
						select {
						case <-full:
						case <-time.After(zktest.Patience):
							t.Errorf("less than %d ever held a lease", n)
						}
						randomPause()
						mu.Lock()
						holders--
						mu.Unlock()
						zktest.Check(t, lease.Unlock(zktest.Within(t)))
					}
				})
			}
			contending.Wait()
			s.checkNothingLeft()
		})
	}
}

// Waiters get the leases in order. The first waits with a znode among the leases, the others at
// the mutex.
func TestSemaphoreOrder(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	a, b := s.contender("", longTimeout, 2), s.contender("", longTimeout, 2)
	held := []*zklock.Lease{a.acquire(), b.acquire()}
	var waiting []*leaseWait
	for i, folder := range []string{"leases", "locks", "locks"} {
		c := s.contender("", longTimeout, 2)
		waiting = append(waiting, c.queue(folder))
		st := c.waitIn(folder, 0)
		if st.Place != i+3 || st.Path != s.path || st.Mode != zklock.Counted {
			t.Errorf("waiter %d: %+v", i, st)
		}
		if i == 0 && (st.Ahead == nil || st.Ahead.Node != held[0].Node() || string(st.Ahead.Data) != "me") {
			t.Errorf("it waits for %+v, not for %s", st.Ahead, held[0].Node())
		}
	}
	if n := len(s.below("leases")); n != 3 {
		t.Errorf("%d znodes are among the leases, want 3", n)
	}
	b.release(held[1])
	first := waiting[0].awaitLease()
	waiting[1].c.waitIn("leases", 0)
	waiting[1].stillWaits()
	waiting[2].stillWaits()
	a.release(held[0])
	second := waiting[1].awaitLease()
	waiting[2].c.waitIn("leases", 0)
	waiting[0].c.release(first)
	waiting[2].c.release(waiting[2].awaitLease())
	waiting[1].c.release(second)
	s.checkNothingLeft()
}

// A waiter that is canceled leaves nothing, wherever it waits.
func TestSemaphoreCanceled(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	holder := s.contender("", longTimeout, 1)
	lease := holder.acquire()
	first := s.contender("", longTimeout, 1).queue("leases")
	second := s.contender("", longTimeout, 1).queue("locks")
	third := s.contender("", longTimeout, 1).queue("locks")
	for _, w := range []*leaseWait{second, first} {
		w.cancel()
		<-w.done
		if !errors.Is(w.err, context.Canceled) {
			t.Errorf("the error is %v", w.err)
		}
		zktest.Must(t, w.c.semaphore.Drain(zktest.Within(t)))
	}
	third.c.waitIn("leases", 0)
	if leases, locks := s.below("leases"), s.below("locks"); len(leases) != 2 || len(locks) != 1 {
		t.Errorf("leases %q, locks %q", leases, locks)
	}
	holder.release(lease)
	third.c.release(third.awaitLease())
	s.checkNothingLeft()
}

func TestTryAcquire(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	a, b := s.contender("", longTimeout, 1), s.contender("", longTimeout, 1)
	try := func() (*zklock.Lease, error) { return b.semaphore.TryAcquire(zktest.Within(t)) }
	lease := a.acquire()
	if _, err := try(); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("the lease is taken: %v", err)
	}
	if n := len(s.below("leases")); n != 1 {
		t.Errorf("%d leases", n)
	}
	waiting := s.contender("", longTimeout, 1).queue("leases")
	if _, err := try(); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("the lease is taken, and another contender waits for it: %v", err)
	}
	a.release(lease)
	waiting.c.release(waiting.awaitLease())

	// Another contender has the mutex, but no lease: whether one is free is not known yet.
	const guard = "/locks/_c_f0a1b2c3-0000-4000-8000-0123456789ab-lock-0000000000"
	for _, takes := range []bool{false, true} {
		zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Create(s.path+guard, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		from := b.log.len()
		var got *zklock.Lease
		done := make(chan error, 1)
		go func() { // ends when the mutex is free, or with the test's patience
			var err error
			got, err = try()
			done <- err
		}()
		b.waitIn("locks", from)
		if takes {
			const other = "/leases/_c_f0a1b2c3-0000-4000-8000-0123456789ab-lease-0000000099"
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Create(s.path+other, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
			if err := <-done; !errors.Is(err, zklock.ErrBusy) {
				t.Errorf("the contender ahead took the lease: %v", err)
			}
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(s.path+other, -1)))
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(s.path+guard, -1)))
			continue
		}
		zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(s.path+guard, -1)))
		zktest.Must(t, <-done)
		b.release(got)
	}
	zktest.Must(t, b.semaphore.Drain(zktest.Within(t)))
	s.checkNothingLeft()
}

// A lease whose znode is deleted is lost.
func TestSemaphoreLeaseLost(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	a := s.contender("", longTimeout, 1)
	lease := a.acquire()
	waiting := s.contender("", longTimeout, 1).queue("leases")
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(lease.Node(), -1)))
	isClosedSoon(t, "lost", lease.Lost())
	if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
		t.Errorf("unlock: %v", err)
	}
	waiting.c.release(waiting.awaitLease())
	s.checkNothingLeft()
}

// A waiter whose znode is deleted, the one at the mutex or the one among the leases, starts
// again.
func TestSemaphoreStartsAgain(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"leases", "locks"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			holder := s.contender("", longTimeout, 1)
			lease := holder.acquire()
			waiting := s.contender("", longTimeout, 1).queue("leases")
			from := waiting.c.log.len()
			node := s.below(folder)[0]
			if folder == "leases" {
				node = path.Base(waiting.c.waitIn("leases", 0).Node)
			}
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(path.Join(s.path, folder, node), -1)))
			waiting.c.log.waitFor(t, from, "requeued", func(st zklock.Status) bool { return st.State == zklock.Requeued })
			waiting.c.waitIn("leases", from)
			if leases, locks := s.below("leases"), s.below("locks"); len(leases) != 2 || len(locks) != 1 {
				t.Errorf("leases %q, locks %q", leases, locks)
			}
			waiting.stillWaits()
			holder.release(lease)
			waiting.c.release(waiting.awaitLease())
			s.checkNothingLeft()
		})
	}
}
