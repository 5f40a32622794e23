package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// testSemaphore lets clients of Curator and of zksh contend for the leases of one semaphore. There
// are never more holders than leases, and all leases are used. With one lease, Curator's
// InterProcessSemaphoreMutex is the same semaphore.
func testSemaphore(t *testing.T, d *drivers, addr string) {
	for n, others := range map[int][]string{1: {"C-semaphore"}, 3: nil} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			kinds := others
			for range 10 {
				kinds = append(kinds, fmt.Sprint("C-leases:", n), fmt.Sprint("leases:", n))
			}
			for range 3 {
				kinds = append(kinds, fmt.Sprint("ownedleases:", n))
			}
			path := fmt.Sprint("/semaphore-", n)
			c := &leaseCounter{n: n, full: make(chan struct{})}
			c.contendAll(t, d, addr, path, kinds)
			t.Logf("held %d times", c.grants)
			if c.most != n {
				t.Errorf("%d held a lease at the same time, want %d", c.most, n)
			}
		})
	}
}

// A leaseCounter counts the holders of a semaphore, from after each acquire until before each release.
type leaseCounter struct {
	n    int           // number of leases
	full chan struct{} // closed once there are n holders

	filled sync.Once // closes full

	mu      sync.Mutex
	holders int
	most    int // largest number of holders
	grants  int // number of leases that were granted so far
}

// semaphoreRounds is the number of leases that each client acquires.
const semaphoreRounds = 10

// contendAll makes one client for each kind acquire a lease, hold it for a moment and release it,
// again and again. At the end, it checks that no znodes are left.
func (c *leaseCounter) contendAll(t *testing.T, d *drivers, addr, path string, kinds []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*zktest.Patience)
	defer cancel()
	var contending sync.WaitGroup
	for _, kind := range slices.Sorted(slices.Values(kinds)) {
		client, err := d.open(ctx, t, addr, kind)
		zktest.Must(t, err)
		contending.Go(func() {
			for range semaphoreRounds {
				if err := c.round(ctx, client, kind, path); err != nil {
					t.Errorf("%s: %v", kind, err)
					return
				}
			}
		})
	}
	contending.Wait()
	watcher, err := openOurs(ctx, t, addr, nil)
	zktest.Must(t, err)
	for _, folder := range strings.Fields("leases locks") {
		if err := watcher.checkEmpty(ctx, path+"/"+folder); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// round acquires and releases a lease. The first holders keep their leases until all are taken.
func (c *leaseCounter) round(ctx context.Context, client client, kind, path string) error {
	if _, err := client.acquire(ctx, kind, path); err != nil {
		return err
	}
	c.change(1)
	select {
	case <-c.full:
		time.Sleep(holdTime)
	case <-ctx.Done():
		return fmt.Errorf("there were never %d holders", c.n)
	}
	c.change(-1)
	return client.release(ctx)
}

// change adds to the number of holders.
func (c *leaseCounter) change(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders += by
	c.grants += max(by, 0)
	c.most = max(c.most, c.holders)
	if c.holders == c.n {
		c.filled.Do(func() { close(c.full) })
	}
}
