package demo

import "context"

// predecessor: each client watches the one before it in the list. One wakes at a
// time. As the article has it (--classic), a client whose predecessor vanished
// between the list and the watch gives up; else it looks again.
type predecessor struct{ *contender }

func (l predecessor) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, unwatched)
		if err != nil {
			return err
		}
		if len(before) == 0 {
			return l.flag(ctx)
		}
		err = l.follow(ctx, last(before))
		if gone(err) && l.classic {
			return errLostTurn
		}
		if err != nil && !gone(err) {
			return err
		}
	}
}
