package demo

import "context"

// parent is a recipe in which all waiters watch the folder. At each change, every waiter wakes
// up, lists the folder and watches it again, although only one can acquire the lock. The holder
// no longer lists the folder, but its last watch remains until the next change.
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
