package demo

import "context"

// parent watches the folder: at each change, each client lists and watches the folder again.
// All clients wake up each time, but only one can acquire the lock. The holder no longer
// looks, but its last watch remains until the next change.
type parent struct{ *contender }

func (l parent) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, watched)
		if err != nil {
			return err
		}
		if len(before) == 0 {
			return l.waitForFlag(ctx)
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}
