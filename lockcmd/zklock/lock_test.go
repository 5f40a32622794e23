package zklock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

func TestMissingParentsAndName(t *testing.T) {
	c := open(t, zktest.Shared(t).Addr(), 6*time.Second)
	path := root()
	lease, err := zklock.New(c, path, zklock.Options{Data: []byte("me")}).Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(lease.Node(), path+"/")
	if n, ok := zklock.ParseName(name); !ok || n.Kind != "Curator mutex" || n.Number != 0 {
		t.Errorf("the znode is named %q", name)
	}
	data, st, err := c.Get(soon(t), lease.Node(), false)
	if err != nil || string(data) != "me" || st.Czxid != lease.Token() || st.EphemeralOwner != c.Info().ID {
		t.Errorf("znode %q %+v, %v; token %#x", data, st, err, lease.Token())
	}
	if err := lease.Unlock(soon(t)); err != nil {
		t.Error(err)
	}
	if err := lease.Unlock(soon(t)); !errors.Is(err, zklock.ErrNotHeld) {
		t.Errorf("a second Unlock: %v", err)
	}
	if _, err := c.Exists(soon(t), lease.Node(), false); err == nil {
		t.Error("the znode is still there")
	}
}

func TestOrderOfWaiters(t *testing.T) {
	addr := zktest.Shared(t).Addr()
	path := root()
	holder, err := zklock.New(open(t, addr, 6*time.Second), path, zklock.Options{}).Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan int, 3)
	var waiters sync.WaitGroup
	defer waiters.Wait()
	for i := range 3 {
		l := newLog()
		lock := zklock.New(open(t, addr, 6*time.Second), path, zklock.Options{Notify: l.note})
		waiters.Go(func() {
			lease, err := lock.Lock(soon(t))
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			time.Sleep(20 * time.Millisecond) // hold it a little
			if err := lease.Unlock(soon(t)); err != nil {
				t.Error(err)
			}
		})
		if st := l.state(t, zklock.Queued); st.Place != i+2 {
			t.Errorf("waiter %d is at place %d", i, st.Place)
		}
	}
	if err := holder.Unlock(soon(t)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		select {
		case got := <-order:
			if got != i {
				t.Errorf("waiter %d came as number %d", got, i)
			}
		case <-time.After(patience):
			t.Fatal("a free lock is not taken")
		}
	}
}

func TestTryAndTimeout(t *testing.T) {
	addr := zktest.Shared(t).Addr()
	path := root()
	a, b := open(t, addr, 6*time.Second), open(t, addr, 6*time.Second)
	held, err := zklock.New(a, path, zklock.Options{}).Lock(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	lock := zklock.New(b, path, zklock.Options{})
	if _, err := lock.TryLock(soon(t)); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("TryLock: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := lock.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock: %v", err)
	}
	if err := lock.Drain(soon(t)); err != nil {
		t.Error(err)
	}
	if names, _, err := b.Children(soon(t), path, false); err != nil || len(names) != 1 {
		t.Errorf("children %q, %v; want the holder's alone", names, err)
	}
	if err := held.Unlock(soon(t)); err != nil {
		t.Error(err)
	}
}
