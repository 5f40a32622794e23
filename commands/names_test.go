package commands

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
)

// A znode's name is printed on one line, even if it contains line breaks.
func TestNamesAreInOneLine(t *testing.T) {
	const name = "a\nb"
	for what, cells := range map[string][]string{
		"find":  pathItem{path: name}.Cells(),
		"tree":  (&treeItem{name: render.OneLine(name)}).Cells(),
		"du":    (&duItem{path: name}).Cells(),
		"ls -l": (&longItem{name: name}).Cells(),
	} {
		if got := cells[len(cells)-1]; got != `a\nb` {
			t.Errorf("%s: %q", what, got)
		}
	}
	var change strings.Builder
	if err := (&nodeChange{Event: nodeDeleted, Path: name}).Text(&change); err != nil || change.String() != "NodeDeleted a\\nb version=0\n" {
		t.Errorf("watch: %q, %v", change.String(), err)
	}
	var b strings.Builder
	if err := (&listing{Children: []string{name, "c"}}).Text(&b); err != nil || b.String() != "[a\\nb, c]\n" {
		t.Errorf("ls: %q, %v", b.String(), err)
	}
}
