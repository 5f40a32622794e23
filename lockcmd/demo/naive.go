package demo

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/zkconn"
)

// naive: whoever creates the one znode holds the lock. Whoever fails watches the
// folder, and tries again at each change. All wake, one wins, nobody is in turn.
type naive struct{ *contender }

func (l naive) lock(ctx context.Context) error {
	for {
		err := l.create(ctx, "lock", fixed)
		if !errors.Is(err, zkconn.NodeExists) {
			return err
		}
		names, err := l.list(ctx, watched)
		if gone(err) || err == nil && len(names) == 0 { // it has gone since, before there was a watch; maybe the folder, too
			continue
		}
		if err != nil {
			return err
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}
