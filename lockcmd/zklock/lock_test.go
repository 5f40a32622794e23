package zklock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, case 1: a lock creates its missing parents.
func TestMissingParentsAndName(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.actor("", longTimeout, zklock.Options{Data: []byte("me")})
	lease := a.take(zklock.Exclusive)
	name := strings.TrimPrefix(lease.Node(), s.path+"/")
	if n, ok := zklock.ParseName(name); !ok || n.Kind != "Curator mutex" || n.Number != 0 {
		t.Errorf("the znode is named %q", name)
	}
	node, err := zkconn.Do(zktest.Within(t), s.observer, zkconn.GetData(lease.Node()))
	if err != nil || string(node.Data) != "me" || node.Stat.Czxid != lease.Token() || node.Stat.EphemeralOwner != a.Info().ID {
		t.Errorf("znode %q %+v, %v; token %#x", node.Data, node.Stat, err, lease.Token())
	}
	if st := lease.State(); st.State != zklock.Held || st.Path != s.path || st.Node != lease.Node() || lease.Path() != s.path ||
		lease.SessionID() != a.Info().ID || time.Until(st.Until) <= 0 {
		t.Errorf("state %+v", st)
	}
	a.release(lease)
	if s.exists(lease.Node()) {
		t.Error("the znode is still there")
	}
}

// CASES.md, case 2: a wait ends with its context and leaves the holder alone.
func TestTimeout(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	held := a.take(zklock.Exclusive)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := b.acquire(ctx, zklock.Exclusive); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock: %v", err)
	}
	zktest.Must(t, b.lock.Drain(zktest.Within(t)))
	if names := s.children(); len(names) != 1 {
		t.Errorf("children %q, want the holder's alone", names)
	}
	if st := held.State().State; st != zklock.Held {
		t.Errorf("the holder's lock is %s", st)
	}
	a.release(held)
}

// TryLock and TryRLock fail with ErrBusy if the lock is held, and leave no znode.
func TestTryLock(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	held := a.take(zklock.Exclusive)
	for _, try := range []func(context.Context) (*zklock.Lease, error){b.lock.TryLock, b.lock.TryRLock} {
		if _, err := try(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
			t.Errorf("a lock that is held: %v", err)
		}
		if names := s.children(); len(names) != 1 {
			t.Errorf("children %q, want the holder's alone", names)
		}
	}
	a.release(held)
	lease, err := b.lock.TryLock(zktest.Within(t))
	zktest.Must(t, err)
	s.holders.add(lease)
	b.release(lease)
}

// CASES.md, case 3: waiters get the lock in order, with one notification and at most one
// list for each hand-off.
func TestOrderOfWaiters(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.simpleActor()
	held := a.take(zklock.Exclusive)
	var queue []*waiter
	for i := range 3 {
		w := s.proxiedActor(longTimeout, zklock.Options{}).queue(zklock.Exclusive)
		st := w.a.log.waitForState(t, zklock.Queued)
		if st.Place != i+2 || st.Ahead == nil || !slices.Contains(s.children(), strings.TrimPrefix(st.Ahead.Node, s.path+"/")) {
			t.Errorf("waiter %d is at place %d behind %+v", i, st.Place, st.Ahead)
		}
		requests(w.a)
		queue = append(queue, w)
	}
	a.release(held)
	for i, w := range queue {
		lease := w.awaitLease()
		want := []int32{jute.OpGetChildren}
		if i == 0 { // it was the only waiter
			want = nil
		}
		if sent := unwatched(w.a); !slices.Equal(sent, want) {
			t.Errorf("waiter %d sent %v, want %v", i, sent, want)
		}
		for _, later := range queue[i+1:] {
			later.stillWaits()
			if sent := requests(later.a); len(sent) > 0 {
				t.Errorf("a waiter in the middle sent %v", sent)
			}
		}
		w.a.release(lease)
		if sent := unwatched(w.a); !slices.Equal(sent, []int32{jute.OpDelete}) {
			t.Errorf("waiter %d sent %v, want one delete", i, sent)
		}
	}
}

// requests returns the opcodes that an actor has sent since the last call, without pings.
func requests(a *actor) []int32 {
	return slices.DeleteFunc(a.proxy.Requests(), func(op int32) bool { return op == jute.OpPing })
}

// unwatched returns requests without the reads that monitor a lock held for some
// milliseconds: of its znode, and of the server's configuration.
func unwatched(a *actor) []int32 {
	return slices.DeleteFunc(requests(a), func(op int32) bool { return op == jute.OpGetData })
}

// CASES.md, cases 4 and 5: the lock is acquired twice, and released without being held.
func TestReentrance(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	first := a.take(zklock.Exclusive)
	requests(a)
	again, err := a.lock.Lock(zktest.Within(t))
	zktest.Must(t, err)
	if again.Node() != first.Node() || again.Token() != first.Token() {
		t.Errorf("taken again it is %s, not %s", again.Node(), first.Node())
	}
	zktest.Must(t, first.Unlock(zktest.Within(t)))
	if err := first.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrNotHeld) {
		t.Errorf("a lease given back twice: %v", err)
	}
	if sent := unwatched(a); len(sent) > 0 {
		t.Errorf("sent %v, want nothing", sent)
	}
	if !s.exists(again.Node()) || again.State().State != zklock.Held {
		t.Error("the lock is gone before its last lease")
	}
	s.holders.remove(first)
	zktest.Must(t, again.Unlock(zktest.Within(t)))
	if s.exists(again.Node()) {
		t.Error("the znode is still there")
	}
	requests(a)
	if err := again.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrNotHeld) || len(unwatched(a)) > 0 {
		t.Errorf("not held: %v", err)
	}
}

// An uncontended lock costs one round trip, and its release another.
func TestRequestsOfAnUncontendedLock(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	a.release(a.take(zklock.Exclusive)) // creates the parents
	requests(a)
	a.release(a.take(zklock.Exclusive))
	want := []int32{jute.OpCreate, jute.OpGetChildren, jute.OpDelete}
	if sent := unwatched(a); !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// CASES.md, cases 13 and 14 (trap 14): a waiter in the middle gives up.
func TestWaiterInTheMiddleGivesUp(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b, c := s.simpleActor(), s.simpleActor(), s.simpleActor()
	held := a.take(zklock.Exclusive)
	wb := b.queue(zklock.Exclusive)
	wc := c.queue(zklock.Exclusive)
	seen := c.log.len()
	wb.cancel()
	<-wb.done
	if !errors.Is(wb.err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", wb.err)
	}
	st := c.log.waitFor(t, seen, "another place", func(st zklock.Status) bool { return st.State == zklock.Queued })
	if st.Place != 2 || st.Ahead.Node != held.Node() {
		t.Errorf("the last one is at place %d behind %+v, want it behind the holder", st.Place, st.Ahead)
	}
	wc.stillWaits()
	if names := s.children(); len(names) != 2 {
		t.Errorf("children %q, want two", names)
	}
	a.release(held)
	c.release(wc.awaitLease())
}

// CASES.md, case 14 (trap 21): Lock returns while the create is in flight; the znode is
// deleted once it appears.
func TestCancelWithCreateInFlight(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			s := sharedScene(t)
			defer s.finish()
			a := s.proxiedActor(longTimeout, zklock.Options{Family: family})
			a.release(a.take(zklock.Exclusive)) // creates the parents
			a.proxy.HoldReplies(true)
			w := a.start(zklock.Exclusive)
			zktest.Eventually(t, "the create has arrived", func() bool { return len(s.children()) > 0 })
			w.cancel()
			<-w.done // no answer has come
			if !errors.Is(w.err, context.Canceled) {
				t.Errorf("a cancelled attempt: %v", w.err)
			}
			if len(s.children()) == 0 {
				t.Error("the znode went before any answer")
			}
			a.proxy.HoldReplies(false)
			zktest.Must(t, a.lock.Drain(zktest.Within(t)))
			if names := s.children(); len(names) > 0 {
				t.Errorf("%q is left", names)
			}
		})
	}
}

// CASES.md, case 41 (trap 11): a hundred attempts that time out leave one watch, not one
// each.
func TestManyTimeoutsShareAWatch(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	held := a.take(zklock.Exclusive)
	for range 100 {
		other := s.actorOn(b.client, zklock.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := other.acquire(ctx, zklock.Exclusive)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	zktest.Eventually(t, "only the holder's znode is watched", func() bool { return s.watches() == 1 })
	a.release(held)
}
