package lockcmd

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

var trafficTime = flag.Duration("traffic", 0, "how long TestNoDeadlockInTraffic searches; a few times by default")

// trafficLocks are the locks of the test. All clients acquire them in this order, so that no
// deadlock is possible.
var trafficLocks = []struct {
	name   string
	family zklock.Family
}{{"/a", zklock.Mutex}, {"/b", zklock.RW}, {"/c", zklock.Kazoo}, {"/d", zklock.Mutex}}

const (
	trafficClients  = 8
	trafficSearches = 5
)

// The search reports no deadlock in traffic without one, although clients hold some locks
// while they wait for others, read and write, give up, and lose their connections.
func TestNoDeadlockInTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newFixture(t, addr)
		over, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		defer clients.Wait()
		defer stop()
		var acquired atomic.Int64
		for i := range trafficClients {
			proxy := zktest.NewProxy(t, addr)
			locks := make([]*zklock.Lock, len(trafficLocks))
			at := open(t, proxy.Addr(), usualTimeout).Ensemble()
			for j, l := range trafficLocks {
				locks[j] = zklock.New(conn{at}, b.root+l.name, zklock.Options{Family: l.family})
			}
			random := rand.New(rand.NewPCG(uint64(i), 1))
			clients.Go(func() { // ends with over
				for over.Err() == nil {
					if random.IntN(50) == 0 {
						proxy.Cut()
					}
					acquired.Add(acquireNested(over, random, locks))
				}
			})
		}
		start := time.Now()
		for n := 0; n < trafficSearches || time.Since(start) < *trafficTime; n++ {
			before := acquired.Load()
			s, err := queue.LookAll(zktest.Within(t), ensemble{b.Session}, b.root)
			zktest.Must(t, err)
			for _, d := range s.Deadlocks {
				t.Errorf("search %d: %s", n, d.Problem)
			}
			zktest.Eventually(t, "the traffic goes on", func() bool { return acquired.Load() > before+trafficClients })
		}
		t.Logf("%d locks were taken in %v", acquired.Load(), time.Since(start))
	})
}

// acquireNested acquires some of the locks, each while it holds the previous ones, and then
// releases them. It returns how many it acquired.
func acquireNested(ctx context.Context, random *rand.Rand, locks []*zklock.Lock) (got int64) {
	for _, l := range locks {
		if random.IntN(3) == 0 {
			continue
		}
		take := l.Lock
		if random.IntN(2) == 0 {
			take = l.RLock
		}
		waiting, cancel := context.WithTimeout(ctx, time.Duration(1+random.IntN(2000))*time.Millisecond)
		lease, err := take(waiting)
		cancel()
		if err != nil {
			return got // the deferred calls release the previous locks
		}
		got++
		defer func() {
			ending, cancel := context.WithTimeout(context.Background(), zktest.Patience)
			defer cancel()
			_ = lease.Unlock(ending) // an error means that the lock was lost
		}()
	}
	hold(ctx, time.Duration(random.IntN(20))*time.Millisecond)
	return got
}

// hold waits for d or until ctx ends, as the work under the locks.
func hold(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
