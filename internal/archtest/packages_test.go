package archtest

import (
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines is the most lines that a Go file may have. Tests count, too.
const maxLines = 400

func TestFileSizes(t *testing.T) {
	fset := token.NewFileSet()
	for _, src := range goFiles(t, fset) {
		if n := fset.File(src.file.Pos()).LineCount(); n > maxLines {
			t.Errorf("%s/%s has %d lines; the limit is %d", src.dir, src.name, n, maxLines)
		}
	}
}

// row matches a line of the table of rooms, cell a name in its first.
var (
	row  = regexp.MustCompile("(?m)^\\| (`.*?) \\|")
	cell = regexp.MustCompile("`([^`]+)`")
)

// CONTRIBUTING tells a newcomer what each package is for, and of nothing that is
// gone.
func TestTableOfRooms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, r := range row.FindAllStringSubmatch(string(text), -1) {
		for _, name := range cell.FindAllStringSubmatch(r[1], -1) {
			told[strings.TrimSuffix(name[1], "/")] = true
		}
	}
	packages := map[string]bool{}
	for _, src := range goFiles(t, token.NewFileSet()) {
		dir := src.dir
		if dir == "." {
			dir = "main.go"
		}
		packages[dir] = true
	}
	for dir := range packages {
		if !told[dir] {
			t.Errorf("CONTRIBUTING's table of rooms lacks %s", dir)
		}
	}
	for dir := range told {
		if !packages[dir] && dir != "testdata" {
			t.Errorf("CONTRIBUTING's table of rooms has %s, which is no package", dir)
		}
	}
}
