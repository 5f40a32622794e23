package transfer

import "github.com/zksh/zksh/internal/zktree"

// A tally counts the edits that make the znodes of a destination equal to those of a source.
type tally struct {
	deeds   [zktree.Deletes + 1]int // number of edits of each kind
	changed int                     // existing znodes that are changed
	open    int                     // znodes that get an open ACL, because theirs is unknown
	unread  zktree.UnreadError      // znodes that could not be read
	missing zktree.Refusals         // znodes of the source that cannot be created in the destination
}

// count yields all edits unchanged, and counts them.
func (t *tally) count(edits zktree.Edits) zktree.Edits {
	return func(yield func(*zktree.Edit, error) bool) {
		for e, err := range edits {
			if err == nil {
				t.add(e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (t *tally) add(e *zktree.Edit) {
	t.deeds[e.Does]++
	if e.Changes() {
		t.changed++
	}
	if e.Missing {
		t.missing.Add(e.Why)
	}
	if e.Does == zktree.Creates && e.New.ACL == nil {
		t.open++
	}
}

// leftAlone returns the number of existing znodes that differ but stay unchanged.
func (t *tally) leftAlone() int { return t.deeds[zktree.Leaves] - t.missing.N }
