package zklock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, cases 6 and 7: readers hold the lock together, and a writer waits for them.
func TestReadersAndAWriter(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			s := sharedScene(t)
			defer s.finish()
			opt := zklock.Options{Family: family}
			var readers []*actor
			var leases []*zklock.Lease
			for range 3 {
				a := s.actor("", longTimeout, opt)
				readers, leases = append(readers, a), append(leases, a.take(zklock.Shared))
			}
			writer := s.actor("", longTimeout, opt)
			w := writer.queue(zklock.Exclusive)
			for i, a := range readers {
				w.stillWaits()
				a.release(leases[i])
			}
			writer.release(w.awaitLease())
		})
	}
}

// CASES.md, case 8: a reader does not overtake a waiting writer.
func TestNewReaderWaitsBehindWriter(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b, c := s.simpleActor(), s.simpleActor(), s.simpleActor()
	reading := a.take(zklock.Shared)
	writing := b.queue(zklock.Exclusive)
	late := c.queue(zklock.Shared)
	a.release(reading)
	lease := writing.awaitLease()
	late.stillWaits()
	b.release(lease)
	c.release(late.awaitLease())
}

// CASES.md, case 9 (trap 29): a reader waits only for writers ahead of it.
func TestReaderBetweenWriters(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b, c := s.simpleActor(), s.simpleActor(), s.simpleActor()
	writing := a.take(zklock.Exclusive)
	r := b.queue(zklock.Shared)
	last := c.queue(zklock.Exclusive)
	a.release(writing)
	lease := r.awaitLease()
	last.stillWaits()
	b.release(lease)
	c.release(last.awaitLease())
}

// CASES.md, case 10 (trap 27): a reader that requests the write lock gets ErrUpgrade.
func TestUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	lease := a.take(zklock.Shared)
	requests(a)
	if _, err := a.lock.Lock(zktest.Within(t)); !errors.Is(err, zklock.ErrUpgrade) {
		t.Errorf("upgrade: %v", err)
	}
	if sent := requests(a); slices.Contains(sent, jute.OpCreate) {
		t.Errorf("sent %v", sent)
	}
	a.release(lease)
}

// CASES.md, case 11 (trap 28): an exclusive lock becomes shared without a gap.
func TestDowngrade(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			s := sharedScene(t)
			defer s.finish()
			opt := zklock.Options{Family: family}
			a := s.actor("", longTimeout, opt)
			d := startDowngrade(a)
			w := s.actor("", longTimeout, opt).queue(zklock.Exclusive)
			r := s.actor("", longTimeout, opt).queue(zklock.Shared)
			zktest.Must(t, d.exclusive.Unlock(zktest.Within(t)))
			d.checkDowngraded(s)
			w.stillWaits()
			r.stillWaits()
			a.release(d.shared)
			w.a.release(w.awaitLease())
			r.a.release(r.awaitLease())
		})
	}
}

// A holder without permission to write to its znode cannot notify the waiters of a
// downgrade. The lock stays exclusive until the last lease is released.
func TestDowngradeForbidden(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	s.createWithParents(s.path, zookeeper.WorldACL(zookeeper.PermAll))
	a := s.actor("", longTimeout, zklock.Options{ACL: zookeeper.WorldACL(zookeeper.PermRead)})
	d := startDowngrade(a)
	r := s.simpleActor().queue(zklock.Shared)
	zktest.Must(t, d.exclusive.Unlock(zktest.Within(t)))
	if st := d.shared.State(); st.State != zklock.Held || st.Mode != zklock.Exclusive || !s.exists(d.node) {
		t.Errorf("it is %v; children %q", st, s.children())
	}
	r.stillWaits()
	a.release(d.shared)
	r.a.release(r.awaitLease())
}

// downgrade is a lock that its owner holds with an exclusive and a shared lease.
type downgrade struct {
	exclusive, shared *zklock.Lease
	node              string
}

func startDowngrade(a *actor) downgrade {
	a.s.Helper()
	return a.addSharedLease(a.take(zklock.Exclusive))
}

// addSharedLease acquires a shared lease of a lock that is held exclusively.
func (a *actor) addSharedLease(exclusive *zklock.Lease) downgrade {
	a.s.Helper()
	d := downgrade{exclusive: exclusive}
	a.s.holders.remove(d.exclusive) // the shared lease represents both
	var err error
	d.shared, err = a.lock.RLock(zktest.Within(a.s.T))
	zktest.Must(a.s.T, err)
	d.node = d.exclusive.Node()
	a.s.holders.mu.Lock()
	defer a.s.holders.mu.Unlock()
	a.s.holders.held = append(a.s.holders.held, d.shared)
	return d
}

// checkDowngraded waits until the lock is shared, and checks that it has kept its place and
// its token.
func (d downgrade) checkDowngraded(s *scene) {
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

// CASES.md, case 12 (trap 30): waiting readers send nothing until the last writer ahead has
// released.
func TestReadersSleepUntilTheLastWriter(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	var writers []*waiter
	first := s.simpleActor()
	held := first.take(zklock.Exclusive)
	for range 4 {
		writers = append(writers, s.simpleActor().queue(zklock.Exclusive))
	}
	var readers []*waiter
	session := s.proxiedActor(longTimeout, zklock.Options{})
	for range 20 {
		readers = append(readers, s.actorOn(session.client, zklock.Options{}).queue(zklock.Shared))
	}
	requests(session)
	first.release(held)
	for _, w := range writers {
		lease := w.awaitLease()
		if sent := requests(session); len(sent) > 0 {
			t.Errorf("while a writer is ahead the readers sent %v", sent)
		}
		w.a.release(lease)
	}
	var leases []*zklock.Lease
	for _, r := range readers {
		leases = append(leases, r.awaitLease())
	}
	if sent := unwatched(session); len(sent) != len(readers) {
		t.Errorf("the readers sent %v, want a list each", sent)
	}
	for i, r := range readers {
		r.a.release(leases[i])
	}
}

// Every family waits for every other.
func TestFamiliesWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	modes := []zklock.Mode{zklock.Exclusive, zklock.Shared}
	for _, held := range zklock.Families() {
		for _, tried := range zklock.Families() {
			for i, how := range modes {
				name := fmt.Sprintf("%s held %s, %s tried", held, how, tried)
				holder := s.actorOn(a.client, zklock.Options{Family: held})
				lease := holder.take(how)
				other := s.actorOn(b.client, zklock.Options{Family: tried})
				if _, err := other.lock.TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
					t.Errorf("%s exclusive: %v", name, err)
				}
				read, err := other.lock.TryRLock(zktest.Within(t))
				if wantBusy := i == 0; errors.Is(err, zklock.ErrBusy) != wantBusy {
					t.Errorf("%s shared: %v", name, err)
				}
				if err == nil {
					zktest.Must(t, read.Unlock(zktest.Within(t)))
				}
				holder.release(lease)
			}
		}
	}
}

// A lock cannot be acquired again in a session that has ended, even before the end is
// reported.
func TestNotAgainAfterTheSession(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.simpleActor()
	l := a.take(zklock.Exclusive)
	a.s.holders.remove(l)
	zktest.Must(t, a.Connect(zktest.Within(t), "")) // ends the session
	again := a.take(zklock.Exclusive)
	if again.SessionID() == l.SessionID() {
		t.Error("it was taken in the session that is over")
	}
	a.release(again)
}
