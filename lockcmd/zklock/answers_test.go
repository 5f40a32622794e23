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

// creation is the request that makes a family's znodes.
func creation(f zklock.Family) int32 {
	if f == zklock.All {
		return jute.OpMulti
	}
	return jute.OpCreate
}

func znodes(f zklock.Family) int {
	if f == zklock.All {
		return 3
	}
	return 1
}

// CASES.md, cases 15 and 16 (traps 1 and 3): the create took effect, its answer is lost,
// and the server is out of reach for a while. The znodes are found again by their
// mark, after a sync.
func TestCreateAnswerLost(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			defer s.end()
			a := s.proxied(usual, zklock.Options{Family: family})
			a.give(a.take(zklock.Exclusive)) // makes the parents
			cut := a.proxy.CutAfterRequest(creation(family))
			a.proxy.Refuse(true)
			w := a.begin(zklock.Exclusive)
			isClosedSoon(t, "cut off", cut)
			made := s.children()
			if len(made) != znodes(family) {
				t.Errorf("children %q", made)
			}
			requests(a)
			a.proxy.Refuse(false)
			lease := w.got()
			if now := s.children(); !slices.Equal(now, made) || !slices.Contains(now, lease.Node()[len(s.path)+1:]) {
				t.Errorf("children %q, before %q; the lock is %s", now, made, lease.Node())
			}
			sent := slices.DeleteFunc(requests(a), func(op int32) bool { return op == jute.OpSetWatches })
			if len(sent) < 2 || sent[0] != jute.OpSync || sent[1] != jute.OpGetChildren {
				t.Errorf("sent %v, want a sync and a list first", sent)
			}
			st, err := zkconn.Do(zktest.Within(t), s.truth, zkconn.Exists(lease.Node()))
			if err != nil || st.Czxid != lease.Token() {
				t.Errorf("znode %+v, %v; token %#x", st, err, lease.Token())
			}
			a.give(lease)
		})
	}
}

// The create never arrived: it is made, once.
func TestCreateLost(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(usual, zklock.Options{})
	a.give(a.take(zklock.Exclusive))
	cut := a.proxy.CutBeforeRequest(jute.OpCreate)
	w := a.begin(zklock.Exclusive)
	isClosedSoon(t, "cut off", cut)
	lease := w.got()
	if names := s.children(); len(names) != 1 {
		t.Errorf("children %q, want one", names)
	}
	a.give(lease)
}

// CASES.md, case 17: out of reach for longer than the session lives.
func TestCreateAnswerLostWithTheSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(4*time.Second, zklock.Options{})
	a.give(a.take(zklock.Exclusive))
	old := a.Info().ID
	cut := a.proxy.CutAfterRequest(jute.OpCreate)
	a.proxy.Refuse(true)
	w := a.begin(zklock.Exclusive)
	isClosedSoon(t, "cut off", cut)
	zktest.Eventually(t, "the session has expired", func() bool { return len(s.children()) == 0 })
	a.proxy.Refuse(false)
	lease := w.got()
	if names := s.children(); len(names) != 1 || lease.SessionID() == old {
		t.Errorf("children %q; session %#x, before %#x", names, lease.SessionID(), old)
	}
	if st := a.log.state(t, zklock.Requeued); st.Err == nil {
		t.Errorf("%+v has no reason", st)
	}
	a.give(lease)
}

// A session that expires while somebody begins to wait for one: the wait goes on.
func TestSessionExpiresBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(4*time.Second, zklock.Options{})
	old := a.Info().ID
	s.put(s.path, zkconn.OpenACL())
	mark, err := zkconn.Do(zktest.Within(t), a, zkconn.Create(s.path+"/mark", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true}))
	must(t, err)
	a.proxy.Refuse(true)
	a.proxy.Cut()
	zktest.Eventually(t, "it is suspended", func() bool { return a.Info().Addr == "" })
	w := a.begin(zklock.Exclusive)
	zktest.Eventually(t, "the session has expired", func() bool { return !s.exists(mark.Path()) })
	a.proxy.Refuse(false)
	lease := w.got()
	if lease.SessionID() == old || lease.SessionID() == 0 {
		t.Errorf("session %#x, before %#x", lease.SessionID(), old)
	}
	a.give(lease)
}

// The list that travels behind the create gets lost, or one made later; or the
// answer with which a watch was left.
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
			s := shared(t)
			defer s.end()
			h := s.actor("", usual, zklock.Options{Family: zklock.RW}) // behind which one always lists again
			held := h.take(zklock.Exclusive)
			a := s.proxied(usual, zklock.Options{})
			cut := a.proxy.CutAfterSkipping(c.op, c.skip)
			w := a.wait(zklock.Exclusive)
			h.give(held)
			lease := w.got()
			isClosedSoon(t, "cut off", cut)
			if names := s.children(); len(names) != 1 {
				t.Errorf("children %q, want one", names)
			}
			a.give(lease)
		})
	}
}

// CASES.md, case 27 (traps 5 and 22): the delete took effect or never arrived; nobody knows.
func TestReleaseUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.All} {
		for _, arrives := range []bool{true, false} {
			t.Run(string(family)+map[bool]string{true: " arrives", false: " is lost"}[arrives], func(t *testing.T) {
				t.Parallel()
				s := shared(t)
				defer s.end()
				releaseUnconfirmed(s, family, arrives)
			})
		}
	}
}

// until gives a context that ends when something has happened.
func until(ctx context.Context, happened <-chan struct{}) context.Context {
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
	a, b := s.proxied(usual, zklock.Options{Family: family}), s.plain()
	lease := a.take(zklock.Exclusive)
	op := int32(jute.OpDelete)
	if family == zklock.All {
		op = jute.OpMulti
	}
	arm := a.proxy.CutBeforeRequest
	if arrives {
		arm = a.proxy.CutAfterRequest
	}
	cut := arm(op)
	a.proxy.Refuse(true)
	ctx := until(s.Context(), cut)
	s.book.leave(lease)
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
	w := b.begin(zklock.Exclusive)
	if !arrives {
		b.log.state(s.T, zklock.Queued)
		a.proxy.Refuse(false)
	}
	other := w.got()
	a.proxy.Refuse(false)
	a.log.state(s.T, zklock.Released)
	again := a.wait(zklock.Exclusive) // the lock works on
	b.give(other)
	a.give(again.got())
	isOpen(s.T, "lost", lease.Lost())
}

// CASES.md, trap 28, with the answer lost: at once, and after the caller has
// given up.
func TestDowngradeAnswerLost(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.All} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			defer s.end()
			a := s.proxied(usual, zklock.Options{Family: family})
			d := startDowngrade(a)
			w := s.plain().wait(zklock.Exclusive)
			a.proxy.CutAfterRequest(jute.OpMulti)
			must(t, d.exclusive.Unlock(zktest.Within(t)))
			d.downgraded(s)
			w.waits()
			a.give(d.shared)
			w.a.give(w.got())
		})
	}
}

func TestDowngradeGivenUp(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*actor, downgrade){
		"and found out": func(a *actor, d downgrade) {
			d.downgraded(a.s)
			must(a.s.T, d.exclusive.Unlock(zktest.Within(a.s.T)))
		},
		"and tried again": func(a *actor, d downgrade) {
			must(a.s.T, d.exclusive.Unlock(zktest.Within(a.s.T)))
			d.downgraded(a.s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			defer s.end()
			a := s.proxied(usual, zklock.Options{})
			d := startDowngrade(a)
			w := s.plain().wait(zklock.Exclusive)
			cut := a.proxy.CutAfterRequest(jute.OpMulti)
			a.proxy.Refuse(true)
			ctx := until(t.Context(), cut)
			if err := d.exclusive.Unlock(ctx); err == nil || errors.Is(err, zklock.ErrLost) {
				t.Errorf("a downgrade without an answer: %v", err)
			}
			isClosedSoon(t, "cut off", cut)
			a.proxy.Refuse(false)
			after(a, d)
			w.waits()
			isOpen(t, "lost", d.shared.Lost())
			a.give(d.shared)
			w.a.give(w.got())
		})
	}
}

// The session ends while the downgrade waits for a connection.
func TestDowngradeWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(4*time.Second, zklock.Options{})
	d := startDowngrade(a)
	a.cutOff()
	a.away(0)
	unlocked := make(chan error)
	go func() { unlocked <- d.exclusive.Unlock(zktest.Within(t)) }() // ends with the session
	zktest.Eventually(t, "the session has expired", func() bool { return !s.exists(d.node) })
	a.proxy.Refuse(false)
	if err := <-unlocked; !errors.Is(err, zklock.ErrLost) {
		t.Errorf("a downgrade in a session that has ended: %v", err)
	}
	a.lost(d.shared)
	if err := d.shared.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
		t.Errorf("the other lease: %v", err)
	}
}

// The downgrade's answer is lost, and the lock is released before anybody knows.
func TestDowngradeGivenUpAndReleased(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(usual, zklock.Options{})
	d := startDowngrade(a)
	w := s.plain().wait(zklock.Exclusive)
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
	must(t, d.shared.Unlock(zktest.Within(t))) // the exclusive lease still holds
	s.book.leave(d.shared)
	a.proxy.HoldReplies(false)
	must(t, d.exclusive.Unlock(zktest.Within(t)))
	w.a.give(w.got())
}
