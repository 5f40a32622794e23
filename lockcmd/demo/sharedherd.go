package demo

import (
	"context"
	"slices"
	"strings"
)

// sharedHerd is a read-write lock in which all clients watch the folder and list it again after
// each change. A reader acquires the lock when no writer precedes it, and a writer when no client
// precedes it.
type sharedHerd struct{ *contender }

func (l sharedHerd) lock(ctx context.Context) error {
	if err := l.create(ctx, l.namePrefix(), numbered); err != nil {
		return err
	}
	for {
		before, err := l.listAhead(ctx, watched)
		if err != nil {
			return err
		}
		if len(before) == 0 || l.reader && !slices.ContainsFunc(before, isWriter) {
			return nil
		}
		if err := l.waitForWatch(ctx); err != nil {
			return err
		}
	}
}

// namePrefix returns the name of the contender's znode without the sequence number. The name
// distinguishes readers from writers.
func (c *contender) namePrefix() string {
	if c.reader {
		return "[localhost]-R-"
	}
	return "[localhost]-W-"
}

// isWriter reports whether the znode with the given name belongs to a writer.
func isWriter(name string) bool { return strings.Contains(name, "-W-") }
