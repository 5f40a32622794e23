package demo

import "context"

// parent is a recipe in which all waiters watch the folder. After each change, every waiter wakes
// up, lists the folder and watches it again, although only one of them can acquire the lock. The
// holder does not list the folder again, but its last watch still fires at the next change.
type parent struct{ *contender }

func (l parent) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, watched)
		if err != nil || len(before) == 0 {
			return err
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}
