package demo

import (
	"context"
	"fmt"
)

// curator is the recipe of Curator's InterProcessMutex. Each client watches its predecessor with
// getData, and lists the folder again once the predecessor has left. The znode's name contains a
// unique id. If the reply to the create request is lost, the client finds its znode by this id.
type curator struct{ *contender }

func (l curator) lock(ctx context.Context) error {
	mark := fmt.Sprintf("_c_%08x-0000-4000-8000-%012x-lock-", l.number, l.session.ID()&(1<<48-1))
	if err := l.create(ctx, mark, numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, unwatched)
		if err != nil || len(before) == 0 {
			return err
		}
		if err := l.watchAndWait(ctx, lastOf(before)); err != nil && !isNoNode(err) {
			return err
		}
	}
}
