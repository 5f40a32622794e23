package demo

import "context"

// poll: each client lists the folder now and then, and holds the lock when its own
// znode is the first. No watch is left, nobody is ever notified.
type poll struct{ *contender }

func (l poll) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		if err := l.nap(ctx); err != nil { // before the first time, too
			return err
		}
		before, err := l.before(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
	}
}
