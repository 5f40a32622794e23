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

// The locks that the traffic is about, taken in this order by everybody, so that
// nobody waits for ever.
var trafficLocks = []struct {
	name   string
	family zklock.Family
}{{"/a", zklock.Mutex}, {"/b", zklock.RW}, {"/c", zklock.Kazoo}, {"/d", zklock.All}}

const (
	trafficClients  = 8
	trafficSearches = 5
)

// In traffic that has no deadlock none is found, though clients hold some locks while
// they wait for others, read and write, give up, and lose their connections.
func TestNoDeadlockInTraffic(t *testing.T) {
	onBoth(t, func(t *testing.T, addr string) {
		b := newBed(t, addr)
		over, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		defer clients.Wait()
		defer stop()
		var taken atomic.Int64
		for i := range trafficClients {
			proxy := zktest.NewProxy(t, addr)
			locks := make([]*zklock.Lock, len(trafficLocks))
			at := open(t, proxy.Addr(), usual).Ensemble()
			for j, l := range trafficLocks {
				locks[j] = zklock.New(conn{at}, b.root+l.name, zklock.Options{Family: l.family})
			}
			random := rand.New(rand.NewPCG(uint64(i), 1))
			clients.Go(func() { // ends with over
				for over.Err() == nil {
					if random.IntN(50) == 0 {
						proxy.Cut()
					}
					taken.Add(nest(over, random, locks))
				}
			})
		}
		start := time.Now()
		for n := 0; n < trafficSearches || time.Since(start) < *trafficTime; n++ {
			before := taken.Load()
			d, err := queue.FindDeadlocks(zktest.Within(t), ensemble{b.Session}, b.root)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range d.Findings {
				t.Errorf("search %d: %s: %s %+v", n, f.Kind, f.Problem, f.Chain)
			}
			zktest.Eventually(t, "the traffic goes on", func() bool { return taken.Load() > before+trafficClients })
		}
		t.Logf("%d locks were taken in %v", taken.Load(), time.Since(start))
	})
}

// nest takes some of the locks, each while those before are held, and lets them go. It
// tells how many it got.
func nest(ctx context.Context, random *rand.Rand, locks []*zklock.Lock) (got int64) {
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
			return got // who gives up has what is before given back by the defers
		}
		got++
		defer func() {
			ending, cancel := context.WithTimeout(context.Background(), zktest.Patience)
			defer cancel()
			_ = lease.Unlock(ending) // a lock that was lost is one that is gone
		}()
	}
	hold(ctx, time.Duration(random.IntN(20))*time.Millisecond)
	return got
}

// hold is the work under the locks.
func hold(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
