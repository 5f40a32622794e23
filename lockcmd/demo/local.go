package demo

import (
	"context"
	"fmt"
)

// local combines a lock inside each process with a lock in ZooKeeper. Only the thread that holds
// its process's lock queues in ZooKeeper, so few clients wait there.
//
// To release the ZooKeeper lock, a thread deletes the first znode in the list, because it assumes
// that this znode is its own. The next thread of the process continues after the previous one has
// ended.
type local struct{ *contender }

// threadsPerProcess is the number of contenders that simulate the threads of one process.
const threadsPerProcess = 5

func (l local) lock(ctx context.Context) error {
	l.beginWait()
	select {
	case l.process() <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// When this contender ends, release the lock of its process, so that the next thread may
	// continue.
	context.AfterFunc(ctx, func() { <-l.process() })
	if err := l.create(ctx, fmt.Sprintf("_c_%032x-lock-", l.session.ID()), numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
		there, err := l.watchExists(ctx, lastOf(before))
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}

func (l local) unlock(ctx context.Context) error {
	names, err := l.list(ctx, unwatched)
	if err != nil || len(names) == 0 {
		return err
	}
	return l.delete(ctx, names[0])
}

// process returns the lock that is shared by the contenders that simulate the threads of one
// process.
func (l local) process() chan struct{} {
	return l.processes[(l.number+threadsPerProcess-1)/threadsPerProcess]
}
