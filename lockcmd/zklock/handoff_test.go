package zklock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// CASES.md, case 47 under faults: with two clients there is mostly one waiter. Two families
// are handed on without a list, one is not. Some locks become shared, some clients give up,
// some lose their znode or their connection.
func TestHandOffUnderFaults(t *testing.T) {
	t.Parallel()
	for _, family := range []zklock.Family{zklock.Mutex, zklock.Kazoo, zklock.RW} {
		t.Run(string(family), func(t *testing.T) {
			t.Parallel()
			s := sharedScene(t)
			defer s.finish()
			var clients sync.WaitGroup
			for i := range 2 {
				a := s.proxiedActor(longTimeout, zklock.Options{Family: family})
				clients.Go(func() {
					r := rand.New(rand.NewPCG(47, uint64(i)))
					for range 60 {
						a.contendOnce(r)
					}
				})
			}
			clients.Wait()
		})
	}
}

// contendOnce acquires and releases the lock, with a random fault in between.
func (a *actor) contendOnce(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(a.s.Context(), zktest.Patience)
	defer cancel()
	switch r.IntN(24) {
	case 0:
		a.proxy.Cut()
	case 1:
		a.proxy.CutAfterRequest([]int32{jute.OpCreate, jute.OpGetChildren, jute.OpGetData, jute.OpDelete, jute.OpMulti}[r.IntN(5)])
	case 2, 3: // gives up early
		cancel()
		ctx, cancel = context.WithTimeout(a.s.Context(), time.Duration(r.IntN(2000))*time.Microsecond)
		defer cancel()
	}
	lease, err := a.acquire(ctx, zklock.Exclusive)
	if err != nil {
		if ctx.Err() == nil {
			a.s.Error(err)
		}
		return
	}
	switch r.IntN(6) {
	case 0, 1:
		d := a.addSharedLease(lease)
		zktest.Check(a.s, d.exclusive.Unlock(zktest.Within(a.s.T)))
		lease = d.shared
	case 2:
		a.removeOthers(lease.Node())
	}
	time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond) // the other client comes before or after
	a.s.holders.remove(lease)
	if err := lease.Unlock(zktest.Within(a.s.T)); err != nil && !errors.Is(err, zklock.ErrLost) {
		a.s.Error(err)
	}
}

// removeOthers deletes the znodes of all waiters.
func (a *actor) removeOthers(own string) {
	list, err := zkconn.Do(zktest.Within(a.s.T), a.s.observer, zkconn.List(a.s.path))
	for _, name := range list.Names {
		if node := a.s.path + "/" + name; err == nil && node != own {
			err = zkconn.Exec(zktest.Within(a.s.T), a.s.observer, zkconn.Delete(node, -1))
		}
	}
	if err != nil && !errors.Is(err, zookeeper.ErrNoNode) {
		a.s.Error(err)
	}
}
