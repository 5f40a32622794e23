package demo

import (
	"context"
	"slices"
)

// shared: as shared-herd, but a reader watches the last writer before it, and a
// writer the one just before it, whoever that is. Only those wake whose turn may
// have come.
type shared struct{ *contender }

func (l shared) lock(ctx context.Context) error {
	if err := l.create(ctx, l.mark(), numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, unwatched)
		if err != nil {
			return err
		}
		if l.reader {
			before = slices.DeleteFunc(before, func(name string) bool { return !writes(name) })
		}
		if len(before) == 0 {
			return nil
		}
		if err := l.follow(ctx, last(before)); err != nil && !gone(err) {
			return err
		}
	}
}
