package archtest

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// TestLargestTypes prints the types with the most methods. A type with more than about 25 methods
// usually has two subjects. The test asserts nothing about the numbers: they are for readers.
func TestLargestTypes(t *testing.T) {
	methods := map[string]int{}
	for _, src := range nonTestSources(t, token.NewFileSet()) {
		for _, decl := range src.file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv != nil {
				methods[src.dir+"."+baseTypeName(d.Recv.List[0].Type)]++
			}
		}
	}
	types := slices.SortedFunc(maps.Keys(methods), func(a, b string) int {
		return cmp.Or(methods[b]-methods[a], cmp.Compare(a, b))
	})
	if len(types) == 0 {
		t.Fatal("no type has methods")
	}
	for _, name := range types[:min(5, len(types))] {
		t.Logf("%3d methods: %s", methods[name], name)
	}
}
