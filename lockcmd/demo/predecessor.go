package demo

import "context"

// predecessor is a recipe in which each client watches the znode directly before its own, so that
// a release wakes only one client. If the predecessor's znode is deleted before the watch is set,
// the client lists the folder again. With --classic, the client gives up instead, to reproduce a
// flaw of the published recipe.
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
