package demo

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/zkconn"
)

// naive is a lock that consists of a single znode: the client that creates the znode holds the
// lock. All other clients watch the folder and try again at each change. All of them wake up
// each time, and any one of them acquires the lock, because there is no queue.
type naive struct{ *contender }

func (l naive) lock(ctx context.Context) error {
	for {
		err := l.create(ctx, "lock", fixed)
		if !errors.Is(err, zkconn.NodeExists) {
			return err
		}
		names, err := l.list(ctx, watched)
		if isNoNode(err) || err == nil && len(names) == 0 { // the znode was deleted before the watch was set, perhaps with the folder
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
