package demo

import (
	"context"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// semaphore is the recipe of the command lock -c 1, which is also that of Curator's
// InterProcessSemaphoreV2. It has a single lease, so that its cost can be compared with that of a
// lock. Each contender is woken twice: when it gets the mutex, and when it gets the lease.
type semaphore struct{ zkshLock }

func (l *semaphore) lock(ctx context.Context) error {
	return l.acquire(ctx, zklock.NewSemaphore(l, l.folder, 1, zklock.Options{Notify: l.onStatus}).Acquire)
}
