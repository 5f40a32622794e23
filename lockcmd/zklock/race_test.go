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

// around waits until about the time at which a held lock begins to be watched.
func around() { time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond) }

// ended checks what a lock told of itself, first to last: nothing comes after its
// end, and the end is what the release said.
func (a *actor) ended(from int, err error) {
	a.s.Helper()
	states := a.log.states()[from:]
	last := map[bool]zklock.State{true: zklock.Released, false: zklock.Lost}[err == nil]
	end := slices.IndexFunc(states, func(s zklock.State) bool { return s == zklock.Released || s == zklock.Lost })
	if end != len(states)-1 || states[end] != last && last == zklock.Lost {
		a.s.Errorf("told %v; the release said %v", states, err)
	}
}

// The release, and the removal of the znode by somebody else, at the same time.
func TestReleaseMeetsRemoval(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.plain()
	for range 150 {
		from := a.log.len()
		lease := a.take(zklock.Exclusive)
		var removing sync.WaitGroup
		removing.Go(func() {
			around()
			err := zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(lease.Node(), -1))
			if err != nil && !errors.Is(err, zkconn.NoNode) {
				t.Error(err)
			}
		})
		around()
		s.book.leave(lease)
		err := lease.Unlock(zktest.Within(t))
		if err != nil && !errors.Is(err, zklock.ErrLost) {
			t.Errorf("unlock: %v", err)
		}
		removing.Wait()
		a.ended(from, err)
	}
}

// The release, and a request to let go or a broken connection, at the same time. What
// was cut is connected again after a second, so that several are at it.
func TestReleaseMeetsChange(t *testing.T) {
	t.Parallel()
	const rounds = 150
	for _, c := range []struct {
		name   string
		actors int
		change func(a *actor, node string) error
	}{
		{"revocation", 1, func(a *actor, node string) error {
			err := zkconn.Exec(zktest.Within(a.s.T), a.s.truth, zkconn.SetData(node, []byte(zklock.RevokeMessage), -1))
			return err
		}},
		{"cut", 10, func(a *actor, _ string) error { a.proxy.Cut(); return nil }},
	} {
		for i := range c.actors {
			t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
				t.Parallel()
				s := shared(t)
				defer s.end()
				a := s.proxied(usual, zklock.Options{})
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
		around()
		if err := change(a, lease.Node()); err != nil && !errors.Is(err, zkconn.NoNode) {
			t.Error(err)
		}
	})
	around()
	a.give(lease)
	changing.Wait()
	a.ended(from, nil)
	isOpen(t, "lost", lease.Lost())
}

// Sessions that are closed at any moment of a lock's life.
func TestSessionEndsAtAnyMoment(t *testing.T) {
	t.Parallel()
	addr := zktest.Shared(t).Addr()
	s := newScene(t, addr)
	defer s.end()
	for range 60 {
		c := open(t, addr, usual)
		a := s.with(c, zklock.Options{})
		var closing sync.WaitGroup
		closing.Go(func() {
			around()
			if err := c.Close(zktest.Within(t)); err != nil {
				t.Error(err)
			}
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

// One owner's goroutines take the lock and give it back, all at once.
func TestOneOwnerManyGoroutines(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.plain()
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
				if err := lease.Unlock(zktest.Within(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	owners.Wait()
	if names := s.children(); len(names) > 0 {
		t.Errorf("%q is left", names)
	}
}
