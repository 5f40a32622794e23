package demo

import "context"

// predecessor is a recipe in which each client watches the znode directly before its own, so that
// a release wakes only one client. If the predecessor's znode is deleted before the watch is set,
// the client lists the folder again.
type predecessor struct{ *contender }

func (l predecessor) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
		if err := l.watchAndWait(ctx, lastOf(before)); err != nil && !isNoNode(err) {
			return err
		}
	}
}
