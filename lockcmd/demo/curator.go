package demo

import (
	"context"
	"fmt"
)

// curator: InterProcessMutex. Each client watches the one before it by getData, and
// goes round again when that has gone. The name has a mark of the client's own, by
// which it knows its znode again when the answer to create got lost.
type curator struct{ *contender }

func (l curator) lock(ctx context.Context) error {
	mark := fmt.Sprintf("_c_%08x-0000-4000-8000-%012x-lock-", l.number, l.session.ID()&(1<<48-1))
	if err := l.create(ctx, mark, numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
		if err := l.follow(ctx, last(before)); err != nil && !gone(err) {
			return err
		}
	}
}
