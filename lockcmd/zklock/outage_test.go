package zklock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// cutOff cuts the actor's connection and refuses new ones until Refuse(false).
func (a *actor) cutOff() {
	a.proxy.Refuse(true)
	a.proxy.Cut()
}

// waitUntilSuspended waits until the actor has noticed that it has no connection. It skips
// the first seen statuses. With a short session timeout on a busy machine, the lease may
// have ended by then.
func (a *actor) waitUntilSuspended(seen int) {
	a.s.Helper()
	a.log.waitFor(a.s.T, seen, "suspended", func(st zklock.Status) bool {
		return st.State == zklock.Suspended || st.State == zklock.PresumedLost
	})
}

// waitForState skips the first seen statuses and waits for the state s.
func (a *actor) waitForState(seen int, s zklock.State) zklock.Status {
	a.s.Helper()
	return a.log.waitFor(a.s.T, seen, string(s), func(st zklock.Status) bool { return st.State == s })
}

// CASES.md, cases 19 and 44 (trap 17): connections are lost, the lock is kept, and each change
// is reported.
func TestHolderReconnects(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	w := s.simpleActor().queue(zklock.Exclusive)
	want := []zklock.State{zklock.Held}
	for range 4 {
		seen := a.log.len()
		a.cutOff()
		if st := a.waitForState(seen, zklock.Suspended); time.Until(st.Until) <= 0 || time.Until(st.Until) > longTimeout {
			t.Errorf("suspended, held until %v from now", time.Until(st.Until))
		}
		a.proxy.Refuse(false)
		if st := a.waitForState(seen, zklock.Held); st.Again {
			t.Errorf("%+v was never presumed lost", st)
		}
		w.stillWaits()
		want = append(want, zklock.Suspended, zklock.Held)
	}
	isOpen(t, "lost", lease.Lost())
	a.release(lease)
	if got := a.log.states(); !slices.Equal(got, append(want, zklock.Releasing, zklock.Released)) {
		t.Errorf("reported %v", got)
	}
	w.a.release(w.awaitLease())
}

// CASES.md, case 20 (trap 17): packets vanish in a black hole. The lock is presumed lost
// before another client gets it, which exclusionCheck checks, and found lost
// once packets pass again. Tests in virtual time check that it is presumed lost exactly
// when the lease ends.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(4*time.Second, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	w := s.simpleActor().queue(zklock.Exclusive)
	a.proxy.Hold(true)
	a.log.waitForState(t, zklock.PresumedLost)
	other := w.awaitLease()
	a.waitForLoss(lease)
	a.proxy.Hold(false)
	if st := a.log.waitForState(t, zklock.Lost); st.Err == nil {
		t.Errorf("%+v", st)
	}
	if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
		t.Errorf("release of a lost lock: %v", err)
	}
	again := a.queue(zklock.Exclusive)
	w.a.release(other)
	a.release(again.awaitLease())
}

// CASES.md, case 24 (trap 19): the server is down, for a while or for longer than the
// session timeout. It keeps the sessions, and with them the lock.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	s := newScene(t, server.Addr())
	defer s.finish()
	const timeout = 8 * time.Second // longer than a server takes to start, even on a busy machine
	a := s.actor("", timeout, zklock.Options{})
	b := s.actor("", timeout, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	node, token := lease.Node(), lease.Token()
	w := b.queue(zklock.Exclusive)
	for _, until := range []zklock.State{zklock.Suspended, zklock.PresumedLost} {
		seen := a.log.len()
		server.Stop()
		a.waitForState(seen, until)
		server.Restart()
		st := a.waitForState(seen, zklock.Held)
		presumed := slices.Contains(a.log.states()[seen:], zklock.PresumedLost)
		if st.Again != presumed || st.Node != node || st.Token != token {
			t.Errorf("held again: %+v, want %s %#x; it had been presumed lost: %v", st, node, token, presumed)
		}
		w.stillWaits()
	}
	if !isClosed(lease.Lost()) {
		t.Error("the possible loss was not reported")
	}
	again, err := a.lock.Lock(zktest.Within(t))
	zktest.Must(t, err)
	isOpen(t, "lost", again.Lost())
	zktest.Must(t, again.Unlock(zktest.Within(t)))
	a.release(lease)
	b.release(w.awaitLease())
}

// CASES.md, case 25: the lock becomes free while the waiter has no connection.
func TestReleaseWhileWaiterIsAway(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.proxiedActor(longTimeout, zklock.Options{})
	held := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	b.cutOff()
	a.release(held)
	w.stillWaits()
	b.proxy.Refuse(false)
	b.release(w.awaitLease())
}

// CASES.md, case 26 (trap 16): the waiter's session expires. The waiter joins the queue
// again, and its deadline stays.
func TestWaiterExpires(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.proxiedActor(4*time.Second, zklock.Options{})
	held := a.take(zklock.Exclusive)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error)
	go func() { // ends with ctx
		_, err := b.acquire(ctx, zklock.Exclusive)
		done <- err
	}()
	before := b.log.waitForState(t, zklock.Queued)
	b.cutOff()
	zktest.Eventually(t, "the waiter's session has expired", func() bool { return len(s.children()) == 1 })
	seen := b.log.len()
	b.proxy.Refuse(false)
	if st := b.waitForState(seen, zklock.Requeued); st.Node != before.Node || !errors.Is(st.Err, zookeeper.ErrSessionExpired) || st.Err.Error() != "its session has ended" {
		t.Errorf("requeued: %+v", st)
	}
	if st := b.waitForState(seen, zklock.Queued); st.Node == before.Node || st.Place != 2 {
		t.Errorf("queued again: %+v", st)
	}
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	zktest.Must(t, b.lock.Drain(zktest.Within(t)))
	a.release(held)
}

// CASES.md, case 39 (trap 6): requests made in a session that has ended are not sent in the
// next one.
func TestNothingCrossesSessions(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(4*time.Second, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	pinned, err := a.Session(zktest.Within(t))
	zktest.Must(t, err)
	a.cutOff()
	a.waitUntilSuspended(0)
	written := make(chan error)
	go func() { // ends with the session
		written <- pinned.Multi(zktest.Within(t), &zookeeper.CheckVersionRequest{Path: lease.Node(), Version: -1},
			&zookeeper.CreateRequest{Path: s.path + "/written", Acl: zookeeper.WorldACL(zookeeper.PermAll)})
	}()
	unlocked := make(chan error)
	go func() { unlocked <- lease.Unlock(zktest.Within(t)) }() // ends with the session
	zktest.Eventually(t, "the session has expired", func() bool { return !s.exists(lease.Node()) })
	requests(a)
	a.proxy.Refuse(false)
	if err := <-written; !errors.Is(err, zookeeper.ErrSessionExpired) {
		t.Errorf("the write: %v", err)
	}
	if err := <-unlocked; !errors.Is(err, zklock.ErrLost) {
		t.Errorf("the release: %v", err)
	}
	s.holders.remove(lease)
	zktest.Must(t, a.WaitReady(zktest.Within(t)))
	if sent := requests(a); len(sent) > 0 {
		t.Errorf("the new session sent %v", sent)
	}
	if s.exists(s.path + "/written") {
		t.Error("the write took effect")
	}
	a.release(a.take(zklock.Exclusive))
}

// CASES.md, case 42 (trap 9): the server that is tried first accepts the connection and
// never answers.
func TestNextServerIsTriedInTime(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	one, two := zktest.NewProxy(t, s.addr), zktest.NewProxy(t, s.addr)
	a := s.actor(one.Addr()+","+two.Addr(), 20*time.Second, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	here := one
	if a.Info().Addr == two.Addr() {
		here = two
	}
	seen := a.log.len()
	here.Hold(true)
	here.Cut()
	a.waitForState(seen, zklock.Held)
	isOpen(t, "lost", lease.Lost())
	a.release(lease)
}

// CASES.md, case 23: the lock is lost when the holder's client is closed.
func TestHolderCloses(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	lease := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	s.holders.remove(lease)
	zktest.Must(t, a.Close(zktest.Within(t)))
	isClosedSoon(t, "lost", lease.Lost())
	b.release(w.awaitLease())
	if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
		t.Errorf("release of a lost lock: %v", err)
	}
	if _, err := a.lock.Lock(zktest.Within(t)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock of a closed client: %v", err)
	}
}

// A wait ends when the waiter's client is closed.
func TestWaiterCloses(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	lease := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	zktest.Must(t, b.Close(zktest.Within(t)))
	isClosedSoon(t, "done waiting", w.done)
	if w.err == nil || errors.Is(w.err, context.DeadlineExceeded) {
		t.Errorf("a wait of a closed client: %v", w.err)
	}
	a.release(lease)
}

// The znode of an abandoned wait is deleted after an outage, even if the first delete is
// not answered.
func TestWithdrawDuringOutage(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.proxiedActor(longTimeout, zklock.Options{})
	held := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	b.cutOff()
	w.cancel()
	<-w.done
	if !errors.Is(w.err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", w.err)
	}
	cut := b.proxy.CutAfterRequest(jute.OpDelete)
	b.proxy.Refuse(false)
	isClosedSoon(t, "cut off", cut)
	zktest.Must(t, b.lock.Drain(zktest.Within(t)))
	if names := s.children(); len(names) != 1 {
		t.Errorf("children %q, want the holder's alone", names)
	}
	a.release(held)
}
