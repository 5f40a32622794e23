package transfer

import (
	"slices"
	"testing"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// A znode's name is printed on one line, even if it contains line breaks.
func TestNamesAreInOneLine(t *testing.T) {
	for what, cells := range map[string][]string{
		"log":       (&logItem{Txn: &dump.Txn{Path: "/a\nb"}}).Cells(),
		"diff":      diffItem{Difference: zktree.Difference{A: &dump.Znode{}}, path: "/a\nb"}.Cells(),
		"import -n": planItem{&zktree.Edit{Path: "/a\nb"}}.Cells(),
	} {
		if !slices.Contains(cells, `/a\nb`) {
			t.Errorf("%s: %q", what, cells)
		}
	}
}

// A copy or an import that stopped can be completed, if it has created znodes or may have.
func TestStoppedWritesCanBeCompleted(t *testing.T) {
	stopped := zktree.PartialError{Cause: zkconn.ConnectionLoss}
	maybe, created := stopped, stopped
	maybe.Outcome.Unknown, created.Done.Created = 3, 3
	if isPartial(&stopped) || !isPartial(&maybe) || !isPartial(&created) {
		t.Errorf("%v, %v, %v", isPartial(&stopped), isPartial(&maybe), isPartial(&created))
	}
}
