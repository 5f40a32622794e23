package demo

import "context"

// poll is a recipe in which each client lists the folder at regular intervals. A client holds the
// lock when its own znode is first in the list. The recipe uses no watches, so there are no
// notifications.
type poll struct{ *contender }

func (l poll) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		if err := l.waitForPoll(ctx); err != nil { // wait before the first list request, too
			return err
		}
		before, err := l.listAhead(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
	}
}
