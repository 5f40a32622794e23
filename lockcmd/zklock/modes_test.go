package zklock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, cases 6 and 7: readers hold together, and a writer waits for them.
func TestReadersAndAWriter(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			s := shared(t)
			defer s.end()
			opt := zklock.Options{Family: family}
			var readers []*actor
			var leases []*zklock.Lease
			for range 3 {
				a := s.actor("", usual, opt)
				readers, leases = append(readers, a), append(leases, a.take(zklock.Shared))
			}
			writer := s.actor("", usual, opt)
			w := writer.wait(zklock.Exclusive)
			for i, a := range readers {
				w.waits()
				a.give(leases[i])
			}
			writer.give(w.got())
		})
	}
}

// CASES.md, case 8: readers do not overtake a writer that waits.
func TestNewReaderWaitsBehindWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a, b, c := s.plain(), s.plain(), s.plain()
	reading := a.take(zklock.Shared)
	writing := b.wait(zklock.Exclusive)
	late := c.wait(zklock.Shared)
	a.give(reading)
	lease := writing.got()
	late.waits()
	b.give(lease)
	c.give(late.got())
}

// CASES.md, case 9 (trap 29): a reader waits only for writers ahead of it.
func TestReaderBetweenWriters(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a, b, c := s.plain(), s.plain(), s.plain()
	writing := a.take(zklock.Exclusive)
	r := b.wait(zklock.Shared)
	last := c.wait(zklock.Exclusive)
	a.give(writing)
	lease := r.got()
	last.waits()
	b.give(lease)
	c.give(last.got())
}

// CASES.md, case 10 (trap 27): a reader that asks for the write lock is rejected.
func TestUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(usual, zklock.Options{})
	lease := a.take(zklock.Shared)
	requests(a)
	if _, err := a.lock.Lock(zktest.Within(t)); !errors.Is(err, zklock.ErrUpgrade) {
		t.Errorf("upgrade: %v", err)
	}
	if sent := requests(a); slices.Contains(sent, jute.OpCreate) {
		t.Errorf("sent %v", sent)
	}
	a.give(lease)
}

// CASES.md, case 11 (trap 28): what was held exclusively becomes shared without a gap.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			s := shared(t)
			defer s.end()
			opt := zklock.Options{Family: family}
			a := s.actor("", usual, opt)
			d := startDowngrade(a)
			w := s.actor("", usual, opt).wait(zklock.Exclusive)
			r := s.actor("", usual, opt).wait(zklock.Shared)
			must(t, d.exclusive.Unlock(zktest.Within(t)))
			d.downgraded(s)
			w.waits()
			r.waits()
			a.give(d.shared)
			w.a.give(w.got())
			r.a.give(r.got())
		})
	}
}

// Who may not write to his own znode cannot tell those who wait that it becomes
// shared: it stays exclusive until the last lease is given back.
func TestDowngradeForbidden(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	s.put(s.path, zookeeper.WorldACL(zookeeper.PermAll))
	a := s.actor("", usual, zklock.Options{ACL: zookeeper.WorldACL(zookeeper.PermRead)})
	d := startDowngrade(a)
	r := s.plain().wait(zklock.Shared)
	must(t, d.exclusive.Unlock(zktest.Within(t)))
	if st := d.shared.State(); st.State != zklock.Held || st.Mode != zklock.Exclusive || !s.exists(d.node) {
		t.Errorf("it is %v; children %q", st, s.children())
	}
	r.waits()
	a.give(d.shared)
	r.a.give(r.got())
}

// downgrade is a lock held both ways by one owner.
type downgrade struct {
	exclusive, shared *zklock.Lease
	node              string
}

func startDowngrade(a *actor) downgrade {
	a.s.Helper()
	return a.sharing(a.take(zklock.Exclusive))
}

// sharing takes a lock shared that is held exclusively.
func (a *actor) sharing(exclusive *zklock.Lease) downgrade {
	a.s.Helper()
	d := downgrade{exclusive: exclusive}
	a.s.book.leave(d.exclusive) // the other lease stands for both
	var err error
	d.shared, err = a.lock.RLock(zktest.Within(a.s.T))
	must(a.s.T, err)
	d.node = d.exclusive.Node()
	a.s.book.mu.Lock()
	defer a.s.book.mu.Unlock()
	a.s.book.held = append(a.s.book.held, d.shared)
	return d
}

// downgraded checks that the place in the queue is kept.
func (d downgrade) downgraded(s *scene) {
	s.Helper()
	number := func(node string) int64 {
		n, ok := zklock.ParseName(strings.TrimPrefix(node, s.path+"/"))
		if !ok {
			s.Errorf("the znode is %s", node)
		}
		return n.Number
	}
	zktest.Eventually(s.T, "the lock is shared", func() bool { return d.shared.State().Mode == zklock.Shared })
	if d.shared.Node() == d.node || number(d.shared.Node()) != number(d.node) || d.shared.Token() != d.exclusive.Token() {
		s.Errorf("shared it is %s token %#x, it was %s token %#x", d.shared.Node(), d.shared.Token(), d.node, d.exclusive.Token())
	}
	if !s.exists(d.shared.Node()) || s.exists(d.node) {
		s.Errorf("children %q; want %s, not %s", s.children(), d.shared.Node(), d.node)
	}
}

// CASES.md, case 12 (trap 30): readers hear nothing until the last writer ahead has gone.
func TestReadersSleepUntilTheLastWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	var writers []*waiter
	first := s.plain()
	held := first.take(zklock.Exclusive)
	for range 4 {
		writers = append(writers, s.plain().wait(zklock.Exclusive))
	}
	var readers []*waiter
	session := s.proxied(usual, zklock.Options{})
	for range 20 {
		readers = append(readers, s.with(session.client, zklock.Options{}).wait(zklock.Shared))
	}
	requests(session)
	first.give(held)
	for _, w := range writers {
		lease := w.got()
		if sent := requests(session); len(sent) > 0 {
			t.Errorf("while a writer is ahead the readers sent %v", sent)
		}
		w.a.give(lease)
	}
	var leases []*zklock.Lease
	for _, r := range readers {
		leases = append(leases, r.got())
	}
	if sent := unwatched(session); len(sent) != len(readers) {
		t.Errorf("the readers sent %v, want a list each", sent)
	}
	for i, r := range readers {
		r.a.give(leases[i])
	}
}

// CASES.md, case 45: all families' znodes come and go at once.
func TestAllFamiliesAtOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []zklock.Mode{zklock.Exclusive, zklock.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			s := shared(t)
			defer s.end()
			a := s.proxied(usual, zklock.Options{Family: zklock.All})
			a.give(a.take(mode)) // makes the parents
			requests(a)
			lease := a.take(mode)
			names := s.children()
			if len(names) != 3 {
				t.Errorf("children %q, want three", names)
			}
			for _, name := range names {
				st, err := zkconn.Do(zktest.Within(t), s.truth, zkconn.Exists(s.path+"/"+name))
				must(t, err)
				if st.Czxid != lease.Token() || st.EphemeralOwner != a.Info().ID {
					t.Errorf("%s has %+v, want czxid %#x", name, st, lease.Token())
				}
			}
			a.give(lease)
			sent := unwatched(a)
			if want := []int32{jute.OpMulti, jute.OpGetChildren, jute.OpMulti}; !slices.Equal(sent, want) {
				t.Errorf("sent %v, want %v", sent, want)
			}
		})
	}
}

// Every family waits for every other.
func TestFamiliesWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a, b := s.plain(), s.plain()
	modes := []zklock.Mode{zklock.Exclusive, zklock.Shared}
	for _, held := range zklock.Families() {
		for _, tried := range zklock.Families() {
			for i, how := range modes {
				name := fmt.Sprintf("%s held %s, %s tried", held, how, tried)
				holder := s.with(a.client, zklock.Options{Family: held})
				lease := holder.take(how)
				other := s.with(b.client, zklock.Options{Family: tried})
				if _, err := other.lock.TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
					t.Errorf("%s exclusive: %v", name, err)
				}
				read, err := other.lock.TryRLock(zktest.Within(t))
				if wantBusy := i == 0; errors.Is(err, zklock.ErrBusy) != wantBusy {
					t.Errorf("%s shared: %v", name, err)
				}
				if err == nil {
					must(t, read.Unlock(zktest.Within(t)))
				}
				holder.give(lease)
			}
		}
	}
}

// Whichever of its znodes a lock of all families loses, it is lost, and the
// others do not stay.
func TestAllIsLostWithOneOfItsZnodes(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		s := shared(t)
		a := s.actor("", usual, zklock.Options{Family: zklock.All})
		l := a.take(zklock.Exclusive)
		must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(s.path+"/"+s.children()[i], -1)))
		a.lost(l)
		zktest.Eventually(t, "the others are gone", func() bool { return len(s.children()) == 0 })
		l = a.take(zklock.Exclusive) // it does not wait for itself
		a.give(l)
		s.end()
	}
}

// A lock is not taken once more when its session is over, though that has not
// been told yet.
func TestNotAgainAfterTheSession(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.plain()
	l := a.take(zklock.Exclusive)
	a.s.book.leave(l)
	must(t, a.Connect(zktest.Within(t), "")) // ends the session
	again := a.take(zklock.Exclusive)
	if again.SessionID() == l.SessionID() {
		t.Error("it was taken in the session that is over")
	}
	a.give(again)
}
