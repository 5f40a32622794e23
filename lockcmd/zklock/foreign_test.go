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

// CASES.md, case 18 (trap 2): children that are no contenders disturb nobody.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	for _, name := range []string{"_c_x", "config", "leases", "lock-", "lock-99999999999", "lock-0", "+x", "#config", "0"} {
		s.put(s.path+"/"+name, zkconn.OpenACL())
	}
	s.start = s.children()
	for _, family := range zklock.Families() {
		opt := zklock.Options{Family: family}
		a := s.proxied(usual, opt)
		a.proxy.CutAfterRequest(creation(family)) // looking for the own mark among them, too
		lease := a.take(zklock.Exclusive)
		w := s.actor("", usual, opt).wait(zklock.Exclusive)
		a.give(lease)
		w.a.give(w.got())
	}
}

// contender makes somebody else's znode.
func (s *scene) contender(prefix string, acl []zookeeper.ACL) string {
	s.Helper()
	path, err := zkconn.Do(zktest.Within(s.T), s.truth, zkconn.Create(s.path+"/"+prefix, []byte("somebody"), acl, zkconn.CreateMode{Ephemeral: true, Sequential: true}))
	must(s.T, err)
	return path.Path()
}

// CASES.md, case 32 (trap 12): the znode ahead may not be read.
func TestPredecessorWithPrivateACL(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	s.put(s.path, zkconn.OpenACL())
	node := s.contender("_c_theirs-lock-", zookeeper.DigestACL(zookeeper.PermAll, "user", "secret"))
	a := s.plain()
	w := a.wait(zklock.Exclusive)
	if st := a.log.state(t, zklock.Queued); st.Ahead.Node != node || st.Ahead.Data != nil || time.Since(st.Ahead.Since).Abs() > time.Hour {
		t.Errorf("ahead is %+v", st.Ahead)
	}
	must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(node, -1)))
	a.give(w.got())
}

// The own znode may not be read either: its loss is noticed all the same.
func TestOwnPrivateACL(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	s.put(s.path, zkconn.OpenACL())
	a := s.actor("", usual, zklock.Options{ACL: zookeeper.DigestACL(zookeeper.PermAll, "user", "secret")})
	lease := a.take(zklock.Exclusive)
	w := s.plain().wait(zklock.Exclusive)
	a.give(lease)
	other := w.got()
	w = a.wait(zklock.Exclusive)
	must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(a.log.from(t, 2, "queued", func(st zklock.Status) bool { return st.Place > 0 }).Node, -1)))
	a.log.state(t, zklock.Requeued)
	s.plain().give(other)
	lease = w.got()
	must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(lease.Node(), -1)))
	a.lost(lease)
}

// CASES.md, case 31 (trap 25): a directory in which nothing can be deleted.
func TestReleaseForbidden(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	s.put(s.path, zookeeper.WorldACL(zookeeper.PermAll&^zookeeper.PermDelete))
	a := s.plain()
	lease := a.take(zklock.Exclusive)
	err := lease.Unlock(zktest.Within(t))
	if !errors.Is(err, zookeeper.ErrNoAuth) || !strings.Contains(err.Error(), lease.Node()) {
		t.Errorf("a release that is forbidden: %v", err)
	}
	if st := lease.State().State; st != zklock.Held {
		t.Errorf("the state is %s", st)
	}
	zktest.Eventually(t, "it is watched over again", func() bool { return s.watches() == 1 })
	err = zkconn.Exec(zktest.Within(t), s.truth, zkconn.SetACL(s.path, zkconn.OpenACL(), -1))
	must(t, err)
	a.give(lease)
}

// CASES.md, case 33 (trap 25): a directory in which something can be made, and no more.
func TestCreateOnlyDirectory(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	must(t, s.truth.AddAuth(zktest.Within(t), "digest", []byte("admin:secret")))
	acl := append(zookeeper.DigestACL(zookeeper.PermAll, "admin", "secret"), zookeeper.WorldACL(zookeeper.PermCreate)...)
	s.put(s.path, acl)
	a := s.plain()
	_, err := a.acquire(zktest.Within(t), zklock.Exclusive)
	names := s.children()
	if !errors.Is(err, zookeeper.ErrNoAuth) || len(names) != 1 || !strings.Contains(err.Error(), s.path+"/"+names[0]) {
		t.Errorf("error %v; children %q", err, names)
	}
	must(t, a.Close(zktest.Within(t)))
}

// A parent that cannot have children is final (CASES.md, trap 34).
func TestEphemeralParent(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.put(s.path, zkconn.OpenACL())
	node := s.contender("parent-", zkconn.OpenACL())
	_, err := zklock.New(s.plain(), node+"/lock", zklock.Options{}).Lock(zktest.Within(t))
	if !errors.Is(err, zookeeper.ErrNoChildrenForEphemerals) {
		t.Errorf("below an ephemeral znode: %v", err)
	}
}

// CASES.md, case 28 (trap 20): the holder's znode is removed by another client.
func TestHoldersZnodeRemoved(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"at once", "later"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			defer s.end()
			a := s.plain()
			lease := a.take(zklock.Exclusive)
			if at == "later" {
				zktest.Eventually(t, "the own znode is watched", func() bool { return s.watches() == 1 })
			}
			must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(lease.Node(), -1)))
			a.lost(lease)
			if st := lease.State(); st.State != zklock.Lost || st.Err == nil {
				t.Errorf("state %+v", st)
			}
			if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrLost) {
				t.Errorf("release of a lost lock: %v", err)
			}
			if err := lease.Unlock(zktest.Within(t)); !errors.Is(err, zklock.ErrNotHeld) {
				t.Errorf("and again: %v", err)
			}
			a.give(a.take(zklock.Exclusive))
		})
	}
}

// The waiter's own znode is removed: it queues again (CASES.md, trap 15).
func TestWaitersZnodeRemoved(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.All} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			defer s.end()
			a, b := s.plain(), s.actor("", usual, zklock.Options{Family: family})
			held := a.take(zklock.Exclusive)
			w := b.wait(zklock.Exclusive)
			node := b.log.state(t, zklock.Queued).Node
			must(t, zkconn.Exec(zktest.Within(t), s.truth, zkconn.Delete(node, -1)))
			if st := b.log.state(t, zklock.Requeued); st.Node != node || st.Err == nil {
				t.Errorf("requeued: %+v", st)
			}
			seen := len(b.log.states())
			b.log.from(t, seen-1, "queued again", func(st zklock.Status) bool { return st.State == zklock.Queued && st.Node != node })
			w.waits()
			a.give(held)
			b.give(w.got())
		})
	}
}

// CASES.md, case 29 (traps 31 and 32): a request to let go is told once, and takes the lock
// from nobody.
func TestRevocation(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a, b := s.plain(), s.plain()
	lease := a.take(zklock.Exclusive)
	w := b.wait(zklock.Exclusive)
	for _, request := range []string{zklock.RevokeMessage, "unlock", zklock.RevokeMessage + " by ops"} {
		seen := a.log.len()
		err := zkconn.Exec(zktest.Within(t), s.truth, zkconn.SetData(lease.Node(), []byte(request), -1))
		must(t, err)
		st := a.log.from(t, seen, "the request", func(st zklock.Status) bool { return st.Revoke != nil })
		if st.State != zklock.Held || !bytes.Equal(st.Revoke, []byte(request)) {
			t.Errorf("told %+v, want %q", st, request)
		}
		w.waits()
	}
	a.give(lease)
	b.give(w.got())
}

// A waiter that is asked to let go hears of it once he holds.
func TestRevocationOfAWaiter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a, b := s.plain(), s.proxied(usual, zklock.Options{})
	held := a.take(zklock.Exclusive)
	w := b.wait(zklock.Exclusive)
	requests(b)
	err := zkconn.Exec(zktest.Within(t), s.truth, zkconn.SetData(b.log.state(t, zklock.Queued).Node, []byte(zklock.RevokeMessage), -1))
	must(t, err)
	zktest.Eventually(t, "it has been looked at", func() bool { return slices.Contains(requests(b), jute.OpGetData) })
	w.waits()
	a.give(held)
	lease := w.got()
	b.log.from(t, 0, "the request", func(st zklock.Status) bool { return st.State == zklock.Held && st.Revoke != nil })
	b.give(lease)
}

// CASES.md, case 34 (trap 23): the server's counter has reached its end.
func TestSequenceOverflow(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.RW, zklock.All} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			server := sandbox.New(sandbox.Options{Tick: tick})
			t.Cleanup(func() { server.Close() })
			addr, err := server.Listen("127.0.0.1:0")
			must(t, err)
			s := newScene(t, addr.String())
			defer s.end()
			s.put(s.path, zkconn.OpenACL())
			if !server.SetSequence(s.path, 1<<31-3) {
				t.Fatal("no such znode")
			}
			session := s.plain()
			opt := zklock.Options{Family: family}
			first := s.with(session.client, opt)
			held := first.take(zklock.Exclusive)
			var queue []*waiter
			for i := range 10 {
				mode := zklock.Exclusive
				if i%4 == 3 {
					mode = zklock.Shared
				}
				queue = append(queue, s.with(session.client, opt).wait(mode))
			}
			first.give(held)
			for i, w := range queue {
				lease := w.got()
				for _, later := range queue[i+1:] {
					later.waits()
				}
				w.a.give(lease)
			}
		})
	}
}

// Downgraded locks keep their place also when the counter overflows behind them.
func TestDowngradeBeforeOverflow(t *testing.T) {
	t.Parallel()
	server := sandbox.New(sandbox.Options{Tick: tick})
	t.Cleanup(func() { server.Close() })
	addr, err := server.Listen("127.0.0.1:0")
	must(t, err)
	s := newScene(t, addr.String())
	defer s.end()
	s.put(s.path, zkconn.OpenACL())
	server.SetSequence(s.path, 1<<31-4)
	a := s.plain()
	d := startDowngrade(a)
	var queue []*waiter
	for range 3 { // the last of them has an untrusted number
		queue = append(queue, s.plain().wait(zklock.Exclusive))
	}
	must(t, d.exclusive.Unlock(zktest.Within(t)))
	d.downgraded(s)
	queue = append(queue, s.plain().wait(zklock.Exclusive))
	for _, w := range queue {
		w.waits()
	}
	a.give(d.shared)
	for _, w := range queue {
		w.a.give(w.got())
	}
}

// CASES.md, case 35 (trap 24): containers vanish between any two requests, and their
// numbers begin anew, but not the fences.
func TestVanishingContainers(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.JavaProperty("znode.container.checkIntervalMs", "20"),
		zktest.JavaProperty("znode.container.maxPerMinute", "1000000"))
	s := newScene(t, server.Addr())
	defer s.end()
	a, b := s.plain(), s.plain()
	firsts := 0
	for i := range 1000 {
		l := []*actor{a, b}[i%2]
		lease := l.take(zklock.Exclusive)
		if n, _ := zklock.ParseName(lease.Node()[len(s.path)+1:]); n.Number == 0 {
			firsts++
		}
		l.give(lease)
	}
	if firsts < 3 {
		t.Errorf("the containers were made %d times: they did not vanish", firsts)
	}
}

// Drain ends with its context when something cannot be removed yet.
func TestDrainGivesUp(t *testing.T) {
	t.Parallel()
	s := shared(t)
	defer s.end()
	a := s.proxied(usual, zklock.Options{})
	lease := a.take(zklock.Exclusive)
	a.proxy.Hold(true)
	s.book.leave(lease)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := lease.Unlock(ctx); !errors.Is(err, zklock.ErrUnconfirmed) {
		t.Errorf("a release without an answer: %v", err)
	}
	if err := a.lock.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v", err)
	}
	a.proxy.Hold(false)
	must(t, a.lock.Drain(zktest.Within(t)))
	if states := a.log.states(); !slices.Equal(states, []zklock.State{zklock.Held, zklock.Releasing, zklock.Released}) {
		t.Errorf("the states were %v", states)
	}
	if text := fmt.Sprint(lease.State()); text != s.path+" exclusive released" {
		t.Errorf("it reads %q", text)
	}
}
