package zkconn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// Every opcode that ZooKeeper 3.4 does not know, and that zksh sends, is in the table newer:
// otherwise, zksh would send it without a trial, and an old server might end the session.
func TestNewOpcodesAreTried(t *testing.T) {
	const newestOf34 = 14 // multi; the opcodes from 100 to 102 are old, too
	neverSent := map[string]bool{"OpCreate2": true, "OpCheckWatches": true, "OpDeleteContainer": true}
	f, err := parser.ParseFile(token.NewFileSet(), "../jute/opcodes.go", nil, 0)
	zktest.Must(t, err)
	found := 0
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || len(spec.Names[0].Name) < 3 || spec.Names[0].Name[:2] != "Op" {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		op, err := strconv.Atoi(literal.Value)
		zktest.Must(t, err)
		found++
		_, known := newer[int32(op)]
		if name := spec.Names[0].Name; known != (op > newestOf34 && op < 100 || op > 102) && !neverSent[name] {
			t.Errorf("%s = %d: it is in the table newer: %t", name, op, known)
		}
		return true
	})
	if found < 25 {
		t.Errorf("found only %d opcodes", found)
	}
}
