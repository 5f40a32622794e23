package demo

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/zkconn"
)

// naive is a lock that consists of a single znode: the client that creates it holds the lock. All
// other clients watch the folder and try again after each change. All of them wake up, and any
// one of them acquires the lock, because there is no queue.
type naive struct{ *contender }

func (l naive) lock(ctx context.Context) error {
	for {
		err := l.create(ctx, "lock", fixed)
		if !errors.Is(err, zkconn.NodeExists) {
			return err
		}
		names, err := l.list(ctx, watched)
		// The znode, and perhaps the folder, was deleted before the watch was set.
		if isNoNode(err) || err == nil && len(names) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}
