package demo

import "context"

// parent: each client watches the folder, and at each change lists it and watches
// it again. All wake each time, one of them to any purpose. The holder does not
// look any more, but its last watch is there until the next change.
type parent struct{ *contender }

func (l parent) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, watched)
		if err != nil {
			return err
		}
		if len(before) == 0 {
			return l.flag(ctx)
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}
