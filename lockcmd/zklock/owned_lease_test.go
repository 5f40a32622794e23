package zklock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// ownedLease returns a lease of the scene's semaphore for an owner, in a session of its own.
func (s *scene) ownedLease(owner string, n int) *zklock.Owned {
	s.Helper()
	return zklock.NewOwnedLease(open(s.T, s.addr, longTimeout), s.path, owner, n, zklock.Options{})
}

// leasesOf returns the leases of an owner.
func (s *scene) leasesOf(owner string) []string {
	s.Helper()
	return slices.DeleteFunc(s.below("leases"), func(name string) bool { return !zklock.OwnedBy(name, owner) })
}

// takeOwned acquires a lease for an owner.
func (s *scene) takeOwned(owner string, n int) zklock.Ownership {
	s.Helper()
	own, err := s.ownedLease(owner, n).Lock(zktest.Within(s.T))
	zktest.Must(s.T, err)
	if got := s.leasesOf(owner); len(got) != 1 {
		s.Errorf("%s has the leases %q", owner, got)
	}
	return own
}

// returnOwned releases the lease of an owner.
func (s *scene) returnOwned(owner string) {
	s.Helper()
	released, err := s.ownedLease(owner, 1).Unlock(zktest.Within(s.T))
	zktest.Must(s.T, err)
	if !released {
		s.Errorf("%s held nothing", owner)
	}
}

func TestOwnedLeases(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	first, second := s.takeOwned("web-1", 2), s.takeOwned("web-2", 2)
	if first.Mode != zklock.Counted || first.Token >= second.Token {
		t.Errorf("they hold %+v and %+v", first, second)
	}
	third := s.contender("", longTimeout, 2).queue("leases")
	if _, err := s.ownedLease("web-3", 2).TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("a third owner got %v", err)
	}
	// The waiter has the mutex, but an owner that already holds a lease need not wait.
	for _, ask := range []func(context.Context) (zklock.Ownership, error){s.ownedLease("web-1", 2).Lock, s.ownedLease("web-1", 2).TryLock} {
		again, err := ask(zktest.Within(t))
		zktest.Must(t, err)
		if !again.Before || again.Token != first.Token {
			t.Errorf("asked again, web-1 got %+v", again)
		}
	}
	third.stillWaits()
	s.returnOwned("web-2")
	third.c.release(third.awaitLease())
	s.returnOwned("web-1")
	s.checkNothingLeft()
}

// Processes of one owner that ask at the same time get the same lease, also while other
// contenders wait for the mutex.
func TestOneOwnerAsksForLeasesOften(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	for range 5 {
		held := s.contender("", longTimeout, 2)
		lease := held.acquire()
		s.takeOwned("other", 2)
		var mu sync.Mutex
		tokens := map[int64]int{}
		var asking sync.WaitGroup
		for range 5 {
			o := s.ownedLease("web-1", 2)
			asking.Go(func() {
				own, err := o.Lock(zktest.Within(t))
				zktest.Check(t, err)
				mu.Lock()
				defer mu.Unlock()
				tokens[own.Token]++
			})
		}
		zktest.Eventually(t, "one of them waits", func() bool { return len(s.leasesOf("web-1")) == 1 })
		later := s.contender("", longTimeout, 2).queue("locks") // gets the mutex before some of them
		held.release(lease)
		asking.Wait() // although the later contender may have the mutex, and waits
		if leases := s.leasesOf("web-1"); len(tokens) != 1 || len(leases) != 1 {
			t.Errorf("tokens %v, leases %q", tokens, leases)
		}
		s.returnOwned("other")
		later.c.release(later.awaitLease())
		s.returnOwned("web-1")
		s.checkNothingLeft()
	}
}

// In each step of acquiring an owned lease, a fault happens. Afterwards, the owner has one lease
// or none, and asking again shows which.
func TestFaultsWhileOwnedLeaseIsAcquired(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			for at, reached := 1, true; reached; at++ {
				ctx, cancel := context.WithCancel(zktest.Within(t))
				defer cancel()
				c := &faultyClient{client: open(t, s.addr, longTimeout), fault: f, at: at, cancel: cancel}
				o := zklock.NewOwnedLease(c, s.path, "web-1", 2, zklock.Options{})
				got, err := o.Lock(ctx)
				zktest.Must(t, o.Drain(zktest.Within(t)))
				zktest.Must(t, c.Close(zktest.Within(t))) // a session that has ended takes its ephemeral znodes with it
				reached = c.dead() || c.sent() >= at
				leases := s.leasesOf("web-1")
				switch {
				case len(leases) > 1:
					t.Errorf("request %d: leases %q", at, leases)
				case err == nil && (len(leases) != 1 || got.Before):
					t.Errorf("request %d: got %+v, but the leases are %q", at, got, leases)
				case err != nil && (f == requestLost || f == answerLost || !reached):
					t.Errorf("request %d: %v", at, err)
				case err != nil && f == canceled && len(leases) > 0:
					t.Errorf("request %d: canceled with %v, but the leases are %q", at, err, leases)
				}
				s.takeOwned("web-1", 2)
				s.returnOwned("web-1")
				s.checkNothingLeft()
			}
		})
	}
}
