package zklock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// randomPause waits for up to 10 ms, which is around the time at which a held lock begins
// to be monitored.
func randomPause() { time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond) }

// checkStates checks the states reported since from: exactly one end, which comes last and
// agrees with err, the result of the release.
func (a *actor) checkStates(from int, err error) {
	a.s.Helper()
	states := a.log.states()[from:]
	last := map[bool]zklock.State{true: zklock.Released, false: zklock.Lost}[err == nil]
	end := slices.IndexFunc(states, func(s zklock.State) bool { return s == zklock.Released || s == zklock.Lost })
	if end != len(states)-1 || states[end] != last && last == zklock.Lost {
		a.s.Errorf("reported %v; the release said %v", states, err)
	}
}

// The holder releases the lock while another client deletes its znode.
func TestReleaseMeetsRemoval(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.simpleActor()
	for range 150 {
		from := a.log.len()
		lease := a.take(zklock.Exclusive)
		var removing sync.WaitGroup
		removing.Go(func() {
			randomPause()
			err := zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(lease.Node(), -1))
			if err != nil && !errors.Is(err, zkconn.NoNode) {
				t.Error(err)
			}
		})
		randomPause()
		s.holders.remove(lease)
		err := lease.Unlock(zktest.Within(t))
		if err != nil && !errors.Is(err, zklock.ErrLost) {
			t.Errorf("unlock: %v", err)
		}
		removing.Wait()
		a.checkStates(from, err)
	}
}

// The holder releases the lock while another client requests its release, or while the
// connection is lost. Reconnecting takes a second, so several actors do this at the same
// time.
func TestReleaseMeetsChange(t *testing.T) {
	t.Parallel()
	const rounds = 150
	for _, c := range []struct {
		name   string
		actors int
		change func(a *actor, node string) error
	}{
		{"revocation", 1, func(a *actor, node string) error {
			err := zkconn.Exec(zktest.Within(a.s.T), a.s.observer, zkconn.SetData(node, []byte(zklock.RevokeMessage), -1))
			return err
		}},
		{"cut", 10, func(a *actor, _ string) error { a.proxy.Cut(); return nil }},
	} {
		for i := range c.actors {
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
				t.Parallel()
				s := sharedScene(t)
				defer s.finish()
				a := s.proxiedActor(longTimeout, zklock.Options{})
				for range rounds / c.actors {
					releaseMeets(t, a, c.change)
				}
			})
		}
	}
}

func releaseMeets(t *testing.T, a *actor, change func(a *actor, node string) error) {
	from := a.log.len()
	lease := a.take(zklock.Exclusive)
	var changing sync.WaitGroup
	changing.Go(func() {
		randomPause()
		if err := change(a, lease.Node()); err != nil && !errors.Is(err, zkconn.NoNode) {
			t.Error(err)
		}
	})
	randomPause()
	a.release(lease)
	changing.Wait()
	a.checkStates(from, nil)
	isOpen(t, "lost", lease.Lost())
}

// A session may be closed at any time while its lock is acquired, held or released.
func TestSessionEndsAtAnyMoment(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t).Addr()
	s := newScene(t, addr)
	defer s.finish()
	for range 60 {
		c := open(t, addr, longTimeout)
		a := s.actorOn(c, zklock.Options{})
		var closing sync.WaitGroup
		closing.Go(func() {
			randomPause()
			zktest.Check(t, c.Close(zktest.Within(t)))
		})
		for {
			lease, err := a.lock.Lock(zktest.Within(t))
			if err != nil {
				break
			}
			err = lease.Unlock(zktest.Within(t))
			if err != nil && !errors.Is(err, zklock.ErrLost) {
				t.Errorf("unlock: %v", err)
			}
		}
		closing.Wait()
	}
}

// Several goroutines of one owner acquire and release the lock concurrently.
func TestOneOwnerManyGoroutines(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.simpleActor()
	var owners sync.WaitGroup
	for i := range 8 {
		owners.Go(func() {
			for j := range 30 {
				take := a.lock.Lock
				if (i+j)%3 == 0 {
					take = a.lock.RLock
				}
				lease, err := take(zktest.Within(t))
				if errors.Is(err, zklock.ErrUpgrade) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if st := lease.State().State; st != zklock.Held {
					t.Errorf("it is %s", st)
				}
				zktest.Check(t, lease.Unlock(zktest.Within(t)))
			}
		})
	}
	owners.Wait()
	if names := s.children(); len(names) > 0 {
		t.Errorf("%q is left", names)
	}
}
