package demo

import "context"

// predecessor watches the znode before the client's own, so that one client wakes up at a
// time. In the article (--classic), a client gives up if its predecessor disappears between
// the list and the watch; otherwise it lists the folder again.
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
