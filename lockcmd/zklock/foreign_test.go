package zklock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, case 18 (trap 2): children that are not contenders have no effect.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	for _, name := range []string{"_c_x", "config", "leases", "lock-", "lock-99999999999", "lock-0", "+x", "#config", "0"} {
		s.createWithParents(s.path+"/"+name, zkconn.OpenACL())
	}
	s.start = s.children()
	for _, family := range zklock.Families() {
		opt := zklock.Options{Family: family}
		a := s.proxiedActor(longTimeout, opt)
		a.proxy.CutAfterRequest(jute.OpCreate) // the client then looks for its own mark among them
		lease := a.take(zklock.Exclusive)
		w := s.actor("", longTimeout, opt).queue(zklock.Exclusive)
		a.release(lease)
		w.a.release(w.awaitLease())
	}
}

// createForeign creates the znode of another contender.
func (s *scene) createForeign(prefix string, acl []zookeeper.ACL) string {
	s.Helper()
	path, err := zkconn.Do(zktest.Within(s.T), s.observer, zkconn.Create(s.path+"/"+prefix, []byte("somebody"), acl, zkconn.CreateMode{Ephemeral: true, Sequential: true}))
	zktest.Must(s.T, err)
	return path.Path()
}

// CASES.md, case 32 (trap 12): the znode ahead cannot be read.
func TestPredecessorWithPrivateACL(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	s.createWithParents(s.path, zkconn.OpenACL())
	node := s.createForeign("_c_theirs-lock-", zookeeper.DigestACL(zookeeper.PermAll, "user", "secret"))
	a := s.simpleActor()
	w := a.queue(zklock.Exclusive)
	if st := a.log.waitForState(t, zklock.Queued); st.Ahead.Node != node || st.Ahead.Data != nil || time.Since(st.Ahead.Since).Abs() > time.Hour {
		t.Errorf("ahead is %+v", st.Ahead)
	}
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(node, -1)))
	a.release(w.awaitLease())
}

// The deletion of the lock's own znode is noticed even if the znode cannot be read.
func TestOwnPrivateACL(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	s.createWithParents(s.path, zkconn.OpenACL())
	a := s.actor("", longTimeout, zklock.Options{ACL: zookeeper.DigestACL(zookeeper.PermAll, "user", "secret")})
	lease := a.take(zklock.Exclusive)
	w := s.simpleActor().queue(zklock.Exclusive)
	a.release(lease)
	other := w.awaitLease()
	w = a.queue(zklock.Exclusive)
	queued := a.log.waitFor(t, 2, "queued", func(st zklock.Status) bool { return st.Place > 0 })
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(queued.Node, -1)))
	a.log.waitForState(t, zklock.Requeued)
	s.simpleActor().release(other)
	lease = w.awaitLease()
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(lease.Node(), -1)))
	a.waitForLoss(lease)
}

// CASES.md, case 31 (trap 25): the parent does not permit deleting children.
func TestReleaseForbidden(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	s.createWithParents(s.path, zookeeper.WorldACL(zookeeper.PermAll&^zookeeper.PermDelete))
	a := s.simpleActor()
	lease := a.take(zklock.Exclusive)
	err := lease.Unlock(zktest.Within(t))
	if !errors.Is(err, zookeeper.ErrNoAuth) || !strings.Contains(err.Error(), lease.Node()) {
		t.Errorf("a release that is forbidden: %v", err)
	}
	if st := lease.State().State; st != zklock.Held {
		t.Errorf("the state is %s", st)
	}
	zktest.Eventually(t, "it is watched over again", func() bool { return s.watches() == 1 })
	err = zkconn.Exec(zktest.Within(t), s.observer, zkconn.SetACL(s.path, zkconn.OpenACL(), -1))
	zktest.Must(t, err)
	a.release(lease)
}

// CASES.md, case 33 (trap 25): the parent permits creating children and nothing else.
func TestCreateOnlyDirectory(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	zktest.Must(t, s.observer.AddAuth(zktest.Within(t), "digest", []byte("admin:secret")))
	acl := append(zookeeper.DigestACL(zookeeper.PermAll, "admin", "secret"), zookeeper.WorldACL(zookeeper.PermCreate)...)
	s.createWithParents(s.path, acl)
	a := s.simpleActor()
	_, err := a.acquire(zktest.Within(t), zklock.Exclusive)
	names := s.children()
	if !errors.Is(err, zookeeper.ErrNoAuth) || len(names) != 1 || !strings.Contains(err.Error(), s.path+"/"+names[0]) {
		t.Errorf("error %v; children %q", err, names)
	}
	zktest.Must(t, a.Close(zktest.Within(t)))
}

// A lock fails at once if its parent is ephemeral (CASES.md, trap 34).
func TestEphemeralParent(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	s.createWithParents(s.path, zkconn.OpenACL())
	node := s.createForeign("parent-", zkconn.OpenACL())
	_, err := zklock.New(s.simpleActor(), node+"/lock", zklock.Options{}).Lock(zktest.Within(t))
	if !errors.Is(err, zookeeper.ErrNoChildrenForEphemerals) {
		t.Errorf("below an ephemeral znode: %v", err)
	}
}

// CASES.md, case 28 (trap 20): another client deletes the holder's znode.
func TestHoldersZnodeRemoved(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"at once", "later"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			a := s.simpleActor()
			lease := a.take(zklock.Exclusive)
			if at == "later" {
				zktest.Eventually(t, "our own znode is watched", func() bool { return s.watches() == 1 })
			}
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(lease.Node(), -1)))
			a.waitForLoss(lease)
			if st := lease.State(); st.State != zklock.Lost || st.Err == nil {
				t.Errorf("state %+v", st)
			}
			if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
				t.Errorf("release of a lost lock: %v", err)
			}
			if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrNotHeld) {
				t.Errorf("and again: %v", err)
			}
			a.release(a.take(zklock.Exclusive))
		})
	}
}

// A waiter joins the queue again if its znode is deleted (CASES.md, trap 15).
func TestWaitersZnodeRemoved(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.Kazoo} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			a, b := s.simpleActor(), s.actor("", longTimeout, zklock.Options{Family: family})
			held := a.take(zklock.Exclusive)
			w := b.queue(zklock.Exclusive)
			node := b.log.waitForState(t, zklock.Queued).Node
			zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.Delete(node, -1)))
			if st := b.log.waitForState(t, zklock.Requeued); st.Node != node || st.Err == nil {
				t.Errorf("requeued: %+v", st)
			}
			seen := len(b.log.states())
			b.log.waitFor(t, seen-1, "queued again", func(st zklock.Status) bool { return st.State == zklock.Queued && st.Node != node })
			w.stillWaits()
			a.release(held)
			b.release(w.awaitLease())
		})
	}
}

// CASES.md, case 29 (traps 31 and 32): a request to release the lock is reported once, and
// does not take the lock away.
func TestRevocation(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	lease := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	for _, request := range []string{zklock.RevokeMessage, "unlock", zklock.RevokeMessage + " by ops"} {
		seen := a.log.len()
		err := zkconn.Exec(zktest.Within(t), s.observer, zkconn.SetData(lease.Node(), []byte(request), -1))
		zktest.Must(t, err)
		st := a.log.waitFor(t, seen, "the request", func(st zklock.Status) bool { return st.Revoke != nil })
		if st.State != zklock.Held || !bytes.Equal(st.Revoke, []byte(request)) {
			t.Errorf("reported %+v, want %q", st, request)
		}
		w.stillWaits()
	}
	a.release(lease)
	b.release(w.awaitLease())
}

// A request to release the lock that reaches a waiter is reported when the waiter gets the
// lock.
func TestRevocationOfAWaiter(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a, b := s.simpleActor(), s.proxiedActor(longTimeout, zklock.Options{})
	held := a.take(zklock.Exclusive)
	w := b.queue(zklock.Exclusive)
	requests(b)
	err := zkconn.Exec(zktest.Within(t), s.observer, zkconn.SetData(b.log.waitForState(t, zklock.Queued).Node, []byte(zklock.RevokeMessage), -1))
	zktest.Must(t, err)
	zktest.Eventually(t, "it has been looked at", func() bool { return slices.Contains(requests(b), jute.OpGetData) })
	w.stillWaits()
	a.release(held)
	lease := w.awaitLease()
	b.log.waitFor(t, 0, "the request", func(st zklock.Status) bool { return st.State == zklock.Held && st.Revoke != nil })
	b.release(lease)
}

// CASES.md, case 34 (trap 23): the server's sequence counter has overflowed.
func TestSequenceOverflow(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			server := sandbox.New(sandbox.Options{Tick: tick})
			t.Cleanup(func() { server.Close() })
			addr, err := server.Listen("127.0.0.1:0")
			zktest.Must(t, err)
			s := newScene(t, addr.String())
			defer s.finish()
			s.createWithParents(s.path, zkconn.OpenACL())
			if !server.SetSequence(s.path, 1<<31-3) {
				t.Fatal("no such znode")
			}
			session := s.simpleActor()
			opt := zklock.Options{Family: family}
			first := s.actorOn(session.client, opt)
			held := first.take(zklock.Exclusive)
			var queue []*waiter
			for i := range 10 {
				mode := zklock.Exclusive
				if i%4 == 3 {
					mode = zklock.Shared
				}
				queue = append(queue, s.actorOn(session.client, opt).queue(mode))
			}
			first.release(held)
			for i, w := range queue {
				lease := w.awaitLease()
				for _, later := range queue[i+1:] {
					later.stillWaits()
				}
				w.a.release(lease)
			}
		})
	}
}

// A downgraded lock keeps its place even if the counter overflows after it.
func TestDowngradeBeforeOverflow(t *testing.T) {
	t.Parallel()
	server := sandbox.New(sandbox.Options{Tick: tick})
	t.Cleanup(func() { server.Close() })
	addr, err := server.Listen("127.0.0.1:0")
	zktest.Must(t, err)
	s := newScene(t, addr.String())
	defer s.finish()
	s.createWithParents(s.path, zkconn.OpenACL())
	server.SetSequence(s.path, 1<<31-4)
	a := s.simpleActor()
	d := startDowngrade(a)
	var queue []*waiter
	for range 3 { // the last of them has an untrusted number
		queue = append(queue, s.simpleActor().queue(zklock.Exclusive))
	}
	zktest.Must(t, d.exclusive.Unlock(zktest.Within(t)))
	d.checkDowngraded(s)
	queue = append(queue, s.simpleActor().queue(zklock.Exclusive))
	for _, w := range queue {
		w.stillWaits()
	}
	a.release(d.shared)
	for _, w := range queue {
		w.a.release(w.awaitLease())
	}
}

// CASES.md, case 35 (trap 24): containers vanish between any two requests. Their sequence
// numbers start again from 0, but tokens keep growing.
func TestVanishingContainers(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.JavaProperty("znode.container.checkIntervalMs", "20"),
		zktest.JavaProperty("znode.container.maxPerMinute", "1000000"))
	s := newScene(t, server.Addr())
	defer s.finish()
	a, b := s.simpleActor(), s.simpleActor()
	firsts := 0
	const enough = 3
	for i := 0; i < 300 || firsts < enough && i < 10_000; i++ {
		l := []*actor{a, b}[i%2]
		lease := l.take(zklock.Exclusive)
		if n, _ := zklock.ParseName(lease.Node()[len(s.path)+1:]); n.Number == 0 {
			firsts++
		}
		l.release(lease)
	}
	if firsts < enough {
		t.Errorf("the containers were made %d times: they did not vanish", firsts)
	}
}

// Drain returns when its context ends, although a znode has not been deleted yet.
func TestDrainGivesUp(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	a := s.proxiedActor(longTimeout, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	a.proxy.Hold(true)
	s.holders.remove(lease)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := lease.Unlock(ctx); !errors.Is(err, zklock.ErrUnconfirmed) {
		t.Errorf("a release without an answer: %v", err)
	}
	if err := a.lock.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	a.proxy.Hold(false)
	zktest.Must(t, a.lock.Drain(zktest.Within(t)))
	if states := a.log.states(); !slices.Equal(states, []zklock.State{zklock.Held, zklock.Releasing, zklock.Released}) {
		t.Errorf("the states were %v", states)
	}
	if text := fmt.Sprint(lease.State()); text != s.path+" exclusive released" {
		t.Errorf("it reads %q", text)
	}
}
