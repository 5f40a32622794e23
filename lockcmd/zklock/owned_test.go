package zklock_test

import (
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// owned returns the lock of the scene for an owner, in a session of its own.
func (s *scene) owned(owner string, opt zklock.Options) *zklock.Owned {
	s.Helper()
	return zklock.NewOwned(open(s.T, s.addr, longTimeout), s.path, owner, opt)
}

// holds checks that an owner has exactly one place, and holds the lock. It returns the lock.
func (s *scene) holds(owner string) zklock.Ownership {
	s.Helper()
	own, held, err := s.owned(owner, zklock.Options{}).Held(zktest.Within(s.T))
	zktest.Must(s.T, err)
	if !held {
		s.Fatalf("%s does not hold the lock; the children are %q", owner, s.children())
	}
	if got := s.places(owner); len(got) != 1 || path.Base(own.Node) != got[0] {
		s.Errorf("%s has the znodes %q, and holds %q", owner, got, own.Node)
	}
	return own
}

// places returns the names of all znodes of an owner.
func (s *scene) places(owner string) []string {
	s.Helper()
	return slices.DeleteFunc(s.children(), func(name string) bool { return !zklock.OwnedBy(name, owner) })
}

// lockOwned acquires the lock for an owner.
func (s *scene) lockOwned(owner string, opt zklock.Options) zklock.Ownership {
	s.Helper()
	own, err := s.owned(owner, opt).Lock(zktest.Within(s.T))
	zktest.Must(s.T, err)
	return own
}

// awaitOwned starts to acquire the lock for an owner, and returns when the owner waits. The result
// of the request is sent to granted.
func (s *scene) awaitOwned(owner string, opt zklock.Options) (granted <-chan error) {
	s.Helper()
	done := make(chan error, 1)
	go func() { // ends when the holder releases the lock, or with the test's patience
		_, err := s.owned(owner, opt).Lock(zktest.Within(s.T))
		done <- err
	}()
	zktest.Eventually(s.T, "the owner waits", func() bool { return len(s.places(owner)) > 0 })
	return done
}

// unlockOwned releases the lock of an owner.
func (s *scene) unlockOwned(owner string) {
	s.Helper()
	released, err := s.owned(owner, zklock.Options{}).Unlock(zktest.Within(s.T))
	zktest.Must(s.T, err)
	if !released {
		s.Errorf("%s held nothing", owner)
	}
}

func TestOwnedLockOutlivesItsSession(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			first := open(t, s.addr, longTimeout)
			got, err := zklock.NewOwned(first, s.path, "web-1", zklock.Options{Family: family, Data: []byte("note")}).Lock(zktest.Within(t))
			zktest.Must(t, err)
			if got.Before || got.Token == 0 || got.Mode != zklock.Exclusive || string(got.Data) != "note" {
				t.Errorf("it got %+v", got)
			}
			zktest.Must(t, first.Close(zktest.Within(t)))

			other := s.actor("", longTimeout, zklock.Options{Family: family}).queue(zklock.Exclusive)
			if again := s.holds("web-1"); again.Token != got.Token {
				t.Errorf("token %#x became %#x", got.Token, again.Token)
			}
			again := s.lockOwned("web-1", zklock.Options{Family: family})
			if !again.Before || again.Token != got.Token {
				t.Errorf("asked again, it got %+v, want token %#x", again, got.Token)
			}
			if _, err := s.owned("web-2", zklock.Options{Family: family}).TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
				t.Errorf("another owner got %v", err)
			}
			other.stillWaits()
			s.unlockOwned("web-1")
			other.a.release(other.awaitLease())
			if released, err := s.owned("web-1", zklock.Options{}).Unlock(zktest.Within(t)); released || err != nil {
				t.Errorf("released again: %t, %v", released, err)
			}
		})
	}
}

func TestOwnedModes(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	opt := zklock.Options{Family: zklock.RW}
	for _, owner := range []string{"a", "b"} {
		_, err := s.owned(owner, opt).RLock(zktest.Within(t))
		zktest.Must(t, err)
	}
	if _, err := s.owned("a", opt).Lock(zktest.Within(t)); !errors.Is(err, zklock.ErrUpgrade) {
		t.Errorf("a reader that asks for the write lock got %v", err)
	}
	writer := s.actor("", longTimeout, opt).queue(zklock.Exclusive)
	s.unlockOwned("a")
	writer.stillWaits()
	s.unlockOwned("b")
	writer.a.release(writer.awaitLease())

	got := s.lockOwned("a", opt)
	shared, err := s.owned("a", opt).RLock(zktest.Within(t))
	zktest.Must(t, err)
	if !shared.Before || shared.Mode != zklock.Exclusive || shared.Token != got.Token {
		t.Errorf("a writer that asks for the read lock got %+v", shared)
	}
	s.unlockOwned("a")
}

// A waiter that watches the ephemeral znode of an owned contender must not take its deletion
// for a release.
func TestHandOffBehindOwned(t *testing.T) {
	t.Parallel()
	for _, family := range zklock.Families() {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			holder := s.simpleActor()
			lease := holder.take(zklock.Exclusive)
			granted := s.awaitOwned("web-1", zklock.Options{Family: family})
			behind := s.simpleActor().queue(zklock.Exclusive)
			holder.release(lease)
			zktest.Must(t, <-granted)
			s.holds("web-1")
			time.Sleep(100 * time.Millisecond) // longer than the waiter needs to list again
			behind.stillWaits()
			s.unlockOwned("web-1")
			behind.a.release(behind.awaitLease())
		})
	}
}

// Processes that ask for the same owner at the same time get the same lock.
func TestOneOwnerAsksOften(t *testing.T) {
	t.Parallel()
	for _, mode := range []zklock.Mode{zklock.Exclusive, zklock.Shared} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			for range 5 {
				holder := s.simpleActor()
				lease := holder.take(zklock.Exclusive)
				var mu sync.Mutex
				tokens := map[int64]int{}
				var asking sync.WaitGroup
				for range 6 {
					o := s.owned("web-1", zklock.Options{Family: zklock.RW})
					ask := o.Lock
					if mode == zklock.Shared {
						ask = o.RLock
					}
					asking.Go(func() {
						own, err := ask(zktest.Within(t))
						zktest.Check(t, err)
						mu.Lock()
						defer mu.Unlock()
						tokens[own.Token]++
					})
				}
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				other := s.actor("", longTimeout, zklock.Options{Family: zklock.RW}).start(mode)
				holder.release(lease)
				if mode == zklock.Shared { // it does not conflict with the owner
					other.a.release(other.awaitLease())
				}
				asking.Wait()
				own := s.holds("web-1")
				if len(tokens) != 1 || tokens[own.Token] != 6 {
					t.Errorf("the tokens are %v, want only %d", tokens, own.Token)
				}
				s.unlockOwned("web-1")
				if mode == zklock.Exclusive {
					other.a.release(other.awaitLease())
				}
			}
		})
	}
}

// Once the server's counter has overflowed, numbers repeat, and no znode can keep its place.
func TestOwnedAfterOverflow(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{Tick: tick})
	s := newScene(t, server.Addr())
	defer s.finish()
	s.createWithParents(s.path, zkconn.OpenACL())
	server.SetSequence(s.path, 1<<31-1)
	if _, err := s.owned("web-1", zklock.Options{}).Lock(zktest.Within(t)); !errors.Is(err, zklock.ErrOverflow) {
		t.Errorf("the error is %v", err)
	}
}

// A request to release the lock that reaches a waiting owner stays visible.
func TestOwnedKeepsTheRequestToRelease(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	holder := s.simpleActor()
	lease := holder.take(zklock.Exclusive)
	granted := s.awaitOwned("web-1", zklock.Options{Data: []byte("note")})
	const request = zklock.RevokeMessage + " please"
	zktest.Must(t, zkconn.Exec(zktest.Within(t), s.observer, zkconn.SetData(path.Join(s.path, s.places("web-1")[0]), []byte(request), -1)))
	holder.release(lease)
	zktest.Must(t, <-granted)
	if got := s.holds("web-1"); string(got.Data) != request {
		t.Errorf("the data is %q", got.Data)
	}
	s.unlockOwned("web-1")
}

// The znode of an owner whose hash is part of no other name is never taken for that of another.
func TestOwnedBy(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	for _, family := range zklock.Families() {
		holder := s.actor("", longTimeout, zklock.Options{Family: family})
		lease := holder.take(zklock.Exclusive)
		for _, name := range s.children() {
			if n, _ := zklock.ParseName(name); n.Owner != "" || n.Permanent || zklock.OwnedBy(name, "web-1") {
				t.Errorf("%s has the owner %q", name, n.Owner)
			}
		}
		holder.release(lease)
		s.lockOwned("web-1", zklock.Options{Family: family})
		for _, name := range s.children() {
			n, ok := zklock.ParseName(name)
			if !ok || !n.Permanent || !zklock.OwnedBy(name, "web-1") || zklock.OwnedBy(name, "web-2") {
				t.Errorf("%s was parsed as %+v", name, n)
			}
		}
		s.unlockOwned("web-1")
	}
}

// A lock that an owner holds in another way than it asks for does not satisfy the request.
func TestOwnedFamily(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	for _, held := range zklock.Families() {
		s.lockOwned("web-1", zklock.Options{Family: held})
		for _, asked := range zklock.Families() {
			_, err := s.owned("web-1", zklock.Options{Family: asked}).Lock(zktest.Within(t))
			if want := map[bool]error{true: nil, false: zklock.ErrFamily}[asked == held]; !errors.Is(err, want) {
				t.Errorf("it holds %s and asks for %s: %v", held, asked, err)
			}
		}
		s.unlockOwned("web-1")
	}
}

// A lock and a lease whose znodes have the same parent are different.
func TestOwnedLockBelowLeases(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	s.takeOwned("web-1", 1)
	below := zklock.NewOwned(open(t, s.addr, longTimeout), s.path+"/leases", "web-1", zklock.Options{})
	own, err := below.Lock(zktest.Within(t))
	zktest.Must(t, err)
	if own.Before || own.Mode != zklock.Exclusive {
		t.Errorf("it got %+v", own)
	}
	if released, err := below.Unlock(zktest.Within(t)); !released || err != nil || len(s.leasesOf("web-1")) != 1 {
		t.Errorf("released %t, %v; leases %q", released, err, s.leasesOf("web-1"))
	}
	s.returnOwned("web-1")
	s.checkNothingLeft()
}
