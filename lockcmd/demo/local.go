package demo

import (
	"context"
	"fmt"
)

// local: a lock of the process stands in front. Of the threads of one process only
// the one that has it queues in ZooKeeper, where so few wait. Who releases deletes
// the first of the list, and trusts that this is its own znode. A thread ends with
// its part, and only then the next one of its process goes on.
type local struct{ *contender }

// threads is how many contenders make a process.
const threads = 5

func (l local) lock(ctx context.Context) error {
	l.park()
	select {
	case l.process() <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	context.AfterFunc(ctx, func() { <-l.process() }) // the thread has gone: the next one's turn
	if err := l.create(ctx, fmt.Sprintf("_c_%032x-lock-", l.session.ID()), numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
		there, err := l.exists(ctx, last(before))
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if err := l.wait(ctx); err != nil {
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

// process is the local lock of the contender's process.
func (l local) process() chan struct{} { return l.processes[(l.number+threads-1)/threads] }
