package demo

import "context"

// predecessor is a recipe in which each client watches the znode before its own, so that only
// one client wakes up at a time. In the article (--classic), a client gives up if its
// predecessor disappears between the list and the watch. Without --classic, the client lists the
// folder again.
type predecessor struct{ *contender }

func (l predecessor) lock(ctx context.Context) error {
	if err := l.create(ctx, "temp", numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, unwatched)
		if err != nil {
			return err
		}
		if len(before) == 0 {
			return l.waitForFlag(ctx)
		}
		err = l.watchAndWait(ctx, lastOf(before))
		if isNoNode(err) && l.classic {
			return errGaveUp
		}
		if err != nil && !isNoNode(err) {
			return err
		}
	}
}
