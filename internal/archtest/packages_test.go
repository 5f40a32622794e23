package archtest

import (
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tableRow matches a row of the table of packages in CONTRIBUTING.md and captures its first
// cell. codeSpan matches the names of packages in that cell.
var (
	tableRow = regexp.MustCompile("(?m)^\\| (`.*?) \\|")
	codeSpan = regexp.MustCompile("`([^`]+)`")
)

// The table of packages in CONTRIBUTING.md lists exactly the packages that exist.
func TestTableOfPackages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, r := range tableRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range codeSpan.FindAllStringSubmatch(r[1], -1) {
			listed[strings.TrimSuffix(name[1], "/")] = true
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
		if !listed[dir] {
			t.Errorf("the table of packages in CONTRIBUTING.md lacks %s", dir)
		}
	}
	for dir := range listed {
		if !packages[dir] && dir != "testdata" {
			t.Errorf("the table of packages in CONTRIBUTING.md contains %s, which does not exist", dir)
		}
	}
}
