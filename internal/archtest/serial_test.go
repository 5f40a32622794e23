package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// serialPackages matches the list of the packages that make test does not run under the race detector
// because they have no goroutines.
var serialPackages = regexp.MustCompile(`(?m)^SERIAL +=((?:.*\\\n)*.*)$`)

// The packages in SERIAL of the Makefile start no goroutines.
func TestSerialPackages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	list := serialPackages.FindStringSubmatch(string(text))
	if list == nil {
		t.Fatal("the Makefile has no list SERIAL")
	}
	dirs, found := strings.Fields(strings.ReplaceAll(list[1], "\\\n", "")), map[string]bool{}
	fset := token.NewFileSet()
	for _, src := range goFiles(t, fset) {
		dir := "./" + src.dir
		if !slices.Contains(dirs, dir) {
			continue
		}
		found[dir] = true
		ast.Inspect(src.file, func(n ast.Node) bool {
			call, _ := n.(*ast.SelectorExpr)
			_, starts := n.(*ast.GoStmt)
			if starts || call != nil && slices.Contains([]string{"Go", "AfterFunc"}, call.Sel.Name) {
				t.Errorf("%s starts a goroutine: remove %s from SERIAL in the Makefile", fset.Position(n.Pos()), dir)
			}
			return true
		})
	}
	for _, dir := range dirs {
		if !found[dir] {
			t.Errorf("SERIAL in the Makefile contains %s, which does not exist", dir)
		}
	}
}
