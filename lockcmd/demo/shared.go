package demo

import (
	"context"
	"slices"
)

// shared is a read-write lock in which a reader watches the last writer before it, and a writer its
// direct predecessor. Therefore a client wakes up only when it may be able to acquire the lock.
type shared struct{ *contender }

func (l shared) lock(ctx context.Context) error {
	if err := l.create(ctx, l.namePrefix(), numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, unwatched)
		if err != nil {
			return err
		}
		if l.reader {
			before = slices.DeleteFunc(before, func(name string) bool { return !isWriter(name) })
		}
		if len(before) == 0 {
			return nil
		}
		if err := l.watchAndWait(ctx, lastOf(before)); err != nil && !isNoNode(err) {
			return err
		}
	}
}
