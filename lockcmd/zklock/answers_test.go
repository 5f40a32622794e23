package zklock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, cases 15 and 16 (traps 1 and 3): the create takes effect, its answer is lost,
// and the server is unreachable for a while. After a sync, the client finds its znodes by
// their mark.
func TestCreateAnswerLost(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			a := s.proxiedActor(longTimeout, zklock.Options{Family: family})
			a.release(a.take(zklock.Exclusive)) // creates the parents
			cut := a.proxy.CutAfterRequest(jute.OpCreate)
			a.proxy.Refuse(true)
			w := a.start(zklock.Exclusive)
			isClosedSoon(t, "cut off", cut)
			made := s.children()
			if len(made) != 1 {
				t.Errorf("children %q", made)
			}
			requests(a)
			a.proxy.Refuse(false)
			lease := w.awaitLease()
			if now := s.children(); !slices.Equal(now, made) || !slices.Contains(now, lease.Node()[len(s.path)+1:]) {
				t.Errorf("children %q, before %q; the lock is %s", now, made, lease.Node())
			}
			sent := slices.DeleteFunc(requests(a), func(op int32) bool { return op == jute.OpSetWatches })
			if len(sent) < 2 || sent[0] != jute.OpSync || sent[1] != jute.OpGetChildren {
				t.Errorf("sent %v, want a sync and a list first", sent)
			}
			st, err := zkconn.Do(zktest.Within(t), s.observer, zkconn.Exists(lease.Node()))
			if err != nil || st.Czxid != lease.Token() {
				t.Errorf("znode %+v, %v; token %#x", st, err, lease.Token())
			}
			a.release(lease)
		})
	}
}

// CASES.md, case 17: the server is unreachable for longer than the session lasts.
func TestCreateAnswerLostWithTheSession(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(4*time.Second, zklock.Options{})
	a.release(a.take(zklock.Exclusive))
	old := a.Info().ID
	cut := a.proxy.CutAfterRequest(jute.OpCreate)
	a.proxy.Refuse(true)
	w := a.start(zklock.Exclusive)
	isClosedSoon(t, "cut off", cut)
	zktest.Eventually(t, "the session has expired", func() bool { return len(s.children()) == 0 })
	a.proxy.Refuse(false)
	lease := w.awaitLease()
	if names := s.children(); len(names) != 1 || lease.SessionID() == old {
		t.Errorf("children %q; session %#x, before %#x", names, lease.SessionID(), old)
	}
	if st := a.log.waitForState(t, zklock.Requeued); st.Err == nil {
		t.Errorf("%+v has no reason", st)
	}
	a.release(lease)
}

// A lock request continues if the session expires while it waits for a connection.
func TestSessionExpiresBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(4*time.Second, zklock.Options{})
	old := a.Info().ID
	s.createWithParents(s.path, zkconn.OpenACL())
	mark, err := zkconn.Do(zktest.Within(t), a, zkconn.Create(s.path+"/mark", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true}))
	zktest.Must(t, err)
	a.proxy.Refuse(true)
	a.proxy.Cut()
	zktest.Eventually(t, "it is suspended", func() bool { return a.Info().Addr == "" })
	w := a.start(zklock.Exclusive)
	zktest.Eventually(t, "the session has expired", func() bool { return !s.exists(mark.Path()) })
	a.proxy.Refuse(false)
	lease := w.awaitLease()
	if lease.SessionID() == old || lease.SessionID() == 0 {
		t.Errorf("session %#x, before %#x", lease.SessionID(), old)
	}
	a.release(lease)
}

// The lock survives the loss of an answer: to the list right after the create, to a later
// list, and to a read that sets a watch.
func TestOtherAnswersLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op   int32
		skip int
	}{
		"first list": {jute.OpGetChildren, 0}, "list after the wake-up": {jute.OpGetChildren, 1},
		"own watch": {jute.OpGetData, 0}, "watch ahead": {jute.OpGetData, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			h := s.actor("", longTimeout, zklock.Options{Family: zklock.RW}) // a waiter behind this family always lists again
			held := h.take(zklock.Exclusive)
			a := s.proxiedActor(longTimeout, zklock.Options{})
			cut := a.proxy.CutAfterSkipping(c.op, c.skip)
			w := a.queue(zklock.Exclusive)
			h.release(held)
			lease := w.awaitLease()
			isClosedSoon(t, "cut off", cut)
			if names := s.children(); len(names) != 1 {
				t.Errorf("children %q, want one", names)
			}
			a.release(lease)
		})
	}
}

// CASES.md, case 27 (traps 5 and 22): the delete of a release takes effect or never
// arrives, and its answer is lost.
func TestReleaseUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.Kazoo} {
		for _, arrives := range []bool{true, false} {
			t.Run(string(family)+map[bool]string{true: " arrives", false: " is lost"}[arrives], func(t *testing.T) {
				t.Parallel()
				s := sharedScene(t)
				defer s.finish()
				releaseUnconfirmed(s, family, arrives)
			})
		}
	}
}

// cancelWhen returns a context that ends when happened is closed, or with ctx.
func cancelWhen(ctx context.Context, happened <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with ctx at the latest
		defer cancel()
		select {
		case <-happened:
		case <-ctx.Done():
		}
	}()
	return ctx
}

func releaseUnconfirmed(s *scene, family zklock.Family, arrives bool) {
	a, b := s.proxiedActor(longTimeout, zklock.Options{Family: family}), s.simpleActor()
	lease := a.take(zklock.Exclusive)
	arm := a.proxy.CutBeforeRequest
	if arrives {
		arm = a.proxy.CutAfterRequest
	}
	cut := arm(jute.OpDelete)
	a.proxy.Refuse(true)
	ctx := cancelWhen(s.Context(), cut)
	s.holders.remove(lease)
	if err := lease.Unlock(ctx); !errors.Is(err, zklock.ErrUnconfirmed) {
		s.Errorf("a release without an answer: %v", err)
	}
	isClosedSoon(s.T, "cut off", cut)
	if gone := len(s.children()) == 0; gone != arrives {
		s.Errorf("the znodes are gone: %v", gone)
	}
	if st := lease.State().State; st != zklock.Releasing {
		s.Errorf("the state is %s", st)
	}
	if err := lease.Unlock(zktest.Within(s.T)); !errors.Is(err, zklock.ErrNotHeld) {
		s.Errorf("a second release: %v", err)
	}
	w := b.start(zklock.Exclusive)
	if !arrives {
		b.log.waitForState(s.T, zklock.Queued)
		a.proxy.Refuse(false)
	}
	other := w.awaitLease()
	a.proxy.Refuse(false)
	a.log.waitForState(s.T, zklock.Released)
	again := a.queue(zklock.Exclusive) // the lock can be acquired again
	b.release(other)
	a.release(again.awaitLease())
	isOpen(s.T, "lost", lease.Lost())
}

// CASES.md, trap 28: the lock becomes shared without a gap, even if the answer is lost.
func TestDowngradeAnswerLost(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.Kazoo} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			a := s.proxiedActor(longTimeout, zklock.Options{Family: family})
			d := startDowngrade(a)
			w := s.simpleActor().queue(zklock.Exclusive)
			a.proxy.CutAfterRequest(jute.OpMulti)
			zktest.Must(t, d.exclusive.Unlock(zktest.Within(t)))
			d.checkDowngraded(s)
			w.stillWaits()
			a.release(d.shared)
			w.a.release(w.awaitLease())
		})
	}
}

// The lock becomes shared if the answer of the downgrade is lost after its caller has given
// up.
func TestDowngradeGivenUp(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*actor, downgrade){
		"and found out": func(a *actor, d downgrade) {
			d.checkDowngraded(a.s)
			zktest.Must(a.s.T, d.exclusive.Unlock(zktest.Within(a.s.T)))
		},
		"and tried again": func(a *actor, d downgrade) {
			zktest.Must(a.s.T, d.exclusive.Unlock(zktest.Within(a.s.T)))
			d.checkDowngraded(a.s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			a := s.proxiedActor(longTimeout, zklock.Options{})
			d := startDowngrade(a)
			w := s.simpleActor().queue(zklock.Exclusive)
			cut := a.proxy.CutAfterRequest(jute.OpMulti)
			a.proxy.Refuse(true)
			ctx := cancelWhen(t.Context(), cut)
			if err := d.exclusive.Unlock(ctx); err == nil || errors.Is(err, zklock.ErrLost) {
				t.Errorf("a downgrade without an answer: %v", err)
			}
			isClosedSoon(t, "cut off", cut)
			a.proxy.Refuse(false)
			after(a, d)
			w.stillWaits()
			isOpen(t, "lost", d.shared.Lost())
			a.release(d.shared)
			w.a.release(w.awaitLease())
		})
	}
}

// The lock is lost if the session ends while the downgrade waits for a connection.
func TestDowngradeWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(4*time.Second, zklock.Options{})
	d := startDowngrade(a)
	a.cutOff()
	a.waitUntilSuspended(0)
	unlocked := make(chan error)
	go func() { unlocked <- d.exclusive.Unlock(zktest.Within(t)) }() // ends with the session
	zktest.Eventually(t, "the session has expired", func() bool { return !s.exists(d.node) })
	a.proxy.Refuse(false)
	if err := <-unlocked; !errors.Is(err, zklock.ErrLost) {
		t.Errorf("a downgrade in a session that has ended: %v", err)
	}
	a.waitForLoss(d.shared)
	if err := d.shared.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
		t.Errorf("the other lease: %v", err)
	}
}

// The lock can be released while the outcome of its downgrade is still unknown.
func TestDowngradeGivenUpAndReleased(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	d := startDowngrade(a)
	w := s.simpleActor().queue(zklock.Exclusive)
	a.proxy.HoldReplies(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	unlocked := make(chan error)
	requests(a)
	go func() { unlocked <- d.exclusive.Unlock(ctx) }() // ends with ctx
	zktest.Eventually(t, "the downgrade is asked for", func() bool { return slices.Contains(requests(a), int32(jute.OpMulti)) })
	cancel()
	if err := <-unlocked; err == nil {
		t.Error("a downgrade without an answer is done")
	}
	zktest.Must(t, d.shared.Unlock(zktest.Within(t))) // the exclusive lease still holds the lock
	s.holders.remove(d.shared)
	a.proxy.HoldReplies(false)
	zktest.Must(t, d.exclusive.Unlock(zktest.Within(t)))
	w.a.release(w.awaitLease())
}
