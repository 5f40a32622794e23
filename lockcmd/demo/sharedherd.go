package demo

import (
	"context"
	"slices"
	"strings"
)

// sharedHerd: readers hold the lock together, a writer alone. All watch the folder,
// and begin anew at each change: a reader goes in if only readers are before it, a
// writer if nobody is.
type sharedHerd struct{ *contender }

func (l sharedHerd) lock(ctx context.Context) error {
	if err := l.create(ctx, l.mark(), numbered); err != nil {
		return err
	}
	for {
		before, err := l.before(ctx, watched)
		if err != nil {
			return err
		}
		if len(before) == 0 || l.reader && !slices.ContainsFunc(before, writes) {
			return nil
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
}

// mark is the name of a reader's znode, or of a writer's, without its number.
func (c *contender) mark() string {
	if c.reader {
		return "[localhost]-R-"
	}
	return "[localhost]-W-"
}

// writes tells the name of a writer's znode.
func writes(name string) bool { return strings.Contains(name, "-W-") }
