package transfer

import (
	"slices"
	"testing"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zktree"
)

// A name is in one line, whatever a server or a file has.
func TestNamesAreInOneLine(t *testing.T) {
	for what, cells := range map[string][]string{
		"log":       (&logged{Txn: &dump.Txn{Path: "/a\nb"}}).Cells(),
		"diff":      difference{Difference: zktree.Difference{Below: "/a\nb", A: &dump.Znode{}}}.Cells(),
		"import -n": planned{zktree.Edit{Path: "/a\nb"}}.Cells(),
	} {
		if !slices.Contains(cells, `/a\nb`) {
			t.Errorf("%s: %q", what, cells)
		}
	}
}
