// Package archtest contains tests of rules for the source code that the compiler does not
// check: allowed imports, file sizes, exported names, and wording.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/zksh/zksh"
	root   = "../.."
)

// allowedImports maps the directory of every package to the packages of this module that it
// may import. Tests may import any package.
var allowedImports = map[string][]string{
	".": {
		"shell", "commands", "commands/transfer", "commands/undo", "lockcmd", "lockcmd/child", "history",
		"internal/app", "internal/peer", "internal/render", "internal/trace", "internal/tty", "internal/app/tutorial", "internal/zkconn", "shell/exit",
	},
	"internal/app":              {"commands", "internal/dump", "internal/playground", "internal/render", "internal/sandbox", "internal/secure", "internal/userfile", "internal/zkconn", "internal/zktree", "shell", "shell/line", "shell/manual"},
	"internal/app/tutorial":     {"commands", "lockcmd/queue", "lockcmd/zklock", "lockcmd/zklock/ensemble", "internal/render", "internal/zkconn"},
	"shell":                     {"shell/batch", "shell/exit", "shell/line", "shell/manual", "shell/syntax", "commands", "history", "internal/peer", "internal/render", "internal/trace", "internal/tty", "internal/userfile", "internal/zkconn"},
	"shell/batch":               {"shell/exit", "shell/syntax", "commands", "internal/render", "internal/zkconn", "internal/zktree"},
	"shell/exit":                {"shell/line", "commands", "internal/peer", "internal/zkconn"},
	"shell/syntax":              {"commands"},
	"shell/line":                {"history", "internal/render", "internal/tty"},
	"shell/manual":              {"internal/render"},
	"commands":                  {"internal/dump", "internal/jute", "internal/properties", "internal/render", "internal/tty", "internal/unpack", "internal/userfile", "internal/zkconn", "internal/zktree"},
	"commands/commandtest":      anything,
	"lockcmd":                   {"commands", "lockcmd/child", "lockcmd/demo", "lockcmd/queue", "lockcmd/zklock", "lockcmd/zklock/ensemble", "internal/cluster", "internal/render", "internal/zkconn", "internal/zktree"},
	"commands/transfer":         {"commands", "internal/dump", "internal/jute", "internal/peer", "internal/render", "internal/userfile", "internal/zkconn", "internal/zktree"},
	"commands/undo":             {"commands", "internal/dump", "internal/render", "internal/userfile", "internal/zkconn", "internal/zktree"},
	"lockcmd/child":             {"internal/tty"},
	"lockcmd/demo":              {"commands", "lockcmd/zklock", "lockcmd/zklock/ensemble", "internal/jute", "internal/render", "internal/zkconn", "internal/zkconn/wire", "internal/zktree"},
	"lockcmd/queue":             {"commands", "lockcmd/zklock", "internal/cluster", "internal/render"},
	"lockcmd/zklock":            {},
	"lockcmd/zklock/ensemble":   {"lockcmd/zklock", "internal/secure", "internal/zkconn"},
	"history":                   {"internal/userfile"},
	"internal/cluster":          {"internal/peer", "internal/render"},
	"internal/dump":             {"internal/jute", "internal/unpack", "internal/userfile"},
	"internal/jute":             {},
	"internal/peer":             {},
	"internal/properties":       {},
	"internal/render":           {},
	"internal/trace":            {"internal/jute", "internal/render", "internal/userfile", "internal/zkconn", "internal/zkconn/wire"},
	"internal/tty":              {},
	"internal/sandbox":          {"internal/jute"},
	"internal/playground":       {"internal/sandbox", "internal/userfile"},
	"internal/unpack":           {},
	"internal/userfile":         {},
	"internal/secure":           {"internal/peer", "internal/properties", "internal/secure/kerberos", "internal/userfile"},
	"internal/secure/kerberos":  {"internal/peer", "internal/userfile"},
	"internal/zkconn":           {"internal/jute", "internal/secure", "internal/zkconn/wire"},
	"internal/zkconn/wire":      {"internal/jute", "internal/peer", "internal/secure"},
	"internal/zktree":           {"internal/dump", "internal/jute", "internal/zkconn"},
	"internal/archtest":         anything,
	"internal/sandbox/difftest": anything,
	"internal/sandbox/rawzk":    anything,
	"internal/e2e":              anything,
	"internal/bench":            anything,
	"internal/interop":          anything,
	"internal/underlock":        anything,
	"internal/replay":           anything,
	"internal/zktest":           anything,
	"internal/zktest/zksession": anything,
}

// anything marks a package that is only for development: it may import any package, and the
// packages of the program must not import it.
var anything = []string{"anything"}

// topLevel lists the files and directories that may be at the top of the tree, besides those
// whose names begin with a dot.
var topLevel = strings.Fields(`
	go.mod go.sum main.go shell commands lockcmd history internal testdata
	README.md Makefile CHANGELOG.md CONTRIBUTING.md LICENSE`)

// A source is a Go file.
type source struct {
	dir  string // directory of its package, relative to the root, with slashes
	name string
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// nonTestSources returns all Go files except tests.
func nonTestSources(t *testing.T, fset *token.FileSet) []source {
	t.Helper()
	return slices.DeleteFunc(goFiles(t, fset), source.test)
}

// goFiles parses the Go files of all packages, tests included, for all operating systems. It
// reads the tree itself instead of running `go list ./...`, so that go test notices when its
// cached result is stale.
func goFiles(t *testing.T, fset *token.FileSet) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		if d.IsDir() && path != root && (hidden || name == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || hidden || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		all = append(all, source{filepath.ToSlash(dir), name, file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImports(t *testing.T) {
	fset := token.NewFileSet()
	for _, src := range nonTestSources(t, fset) {
		allowed, known := allowedImports[src.dir]
		if !known {
			t.Errorf("%s/%s: the package is missing in allowedImports", src.dir, src.name)
			continue
		}
		for _, imp := range src.file.Imports {
			path := importPath(t, imp)
			if path == "github.com/c-bata/go-prompt" && src.dir != "shell/line" {
				t.Errorf("%s: only shell/line may import %s", fset.Position(imp.Pos()), path)
			}
			dir, ours := strings.CutPrefix(path, module+"/")
			if ours && !mayImportAnything(src.dir) && !slices.Contains(allowed, dir) {
				t.Errorf("%s: %s may not import %s", fset.Position(imp.Pos()), src.dir, dir)
			}
		}
	}
}

// No package below internal depends on the packages of the program's commands, except those that only
// main uses. Tests and their helpers may import everything.
func TestInternalKnowsNoCommands(t *testing.T) {
	for dir, allowed := range allowedImports {
		if !strings.HasPrefix(dir, "internal/") || within(dir, "internal/app") || mayImportAnything(dir) {
			continue
		}
		for _, imp := range allowed {
			if within(imp, "shell") || within(imp, "commands") || within(imp, "lockcmd") {
				t.Errorf("%s may not import %s", dir, imp)
			}
		}
	}
}

// within reports whether dir is the directory top, or is below it.
func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

func TestUses(t *testing.T) {
	rules := []struct {
		path  string
		names []string
		ok    func(source) bool
		why   string
	}{
		{
			"github.com/go-zookeeper/zk", []string{"Connect", "ConnectWithDialer"},
			func(s source) bool { return s.dir == "internal/zkconn/wire" || mayImportAnything(s.dir) },
			"only internal/zkconn/wire makes connections",
		},
		{
			"os", []string{"Exit"},
			func(s source) bool { return s.file.Name.Name == "main" || s.dir == "internal/zktest" },
			"only main exits: locks and ephemeral nodes would outlive the process",
		},
		{
			"log", []string{"Fatal", "Fatalf", "Fatalln"},
			func(s source) bool { return s.file.Name.Name == "main" },
			"it exits as os.Exit does",
		},
	}
	fset := token.NewFileSet()
	for _, src := range nonTestSources(t, fset) {
		for _, rule := range rules {
			if rule.ok(src) {
				continue
			}
			for _, use := range findUses(t, src.file, rule.path, rule.names) {
				t.Errorf("%s: %s.%s: %s", fset.Position(use.Pos()), rule.path, use.Sel.Name, rule.why)
			}
		}
	}
}

// ownPrograms lists the first arguments of exec.Command that tests may use: zksh, the test itself,
// and programs that only compute, wait or run a script of the test.
var ownPrograms = strings.Fields(`"zksh" os.Args[0] self "go" "git" "sh" "bash" "stty" "cat" "true" "sleep"`)

// Tests start the programs of other projects with zktest.Command, which kills them with their
// children if they hang.
func TestProgramsOfOthers(t *testing.T) {
	fset := token.NewFileSet()
	for _, src := range goFiles(t, fset) {
		if !src.test() {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			var program ast.Expr
			switch fun := types.ExprString(call.Fun); {
			case fun == "exec.Command":
				program = call.Args[0]
			case fun == "exec.CommandContext":
				program = call.Args[1]
			default:
				return true
			}
			if name := types.ExprString(program); !slices.Contains(ownPrograms, name) {
				t.Errorf("%s: start %s with zktest.Command", fset.Position(call.Pos()), name)
			}
			return true
		})
	}
}

// findUses returns the uses in file of the given names of the package at path.
func findUses(t *testing.T, file *ast.File, path string, names []string) []*ast.SelectorExpr {
	t.Helper()
	local := ""
	for _, imp := range file.Imports {
		if importPath(t, imp) != path {
			continue
		}
		local = path[strings.LastIndex(path, "/")+1:]
		if imp.Name != nil {
			local = imp.Name.Name
		}
	}
	if local == "." {
		t.Errorf("package %s imports %s with a dot, which hides what it uses", file.Name.Name, path)
	}
	var found []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, sel.Sel.Name) {
			found = append(found, sel)
		}
		return true
	})
	return found
}

func importPath(t *testing.T, imp *ast.ImportSpec) string {
	t.Helper()
	path, err := strconv.Unquote(imp.Path.Value)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func mayImportAnything(dir string) bool { return slices.Equal(allowedImports[dir], anything) }

func TestTopLevel(t *testing.T) {
	// safe.directory allows git to read a checkout that belongs to another user.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git tree: %v", err)
	}
	odd := map[string]bool{}
	for path := range strings.Lines(string(out)) {
		top, _, _ := strings.Cut(strings.TrimSuffix(path, "\n"), "/")
		if !strings.HasPrefix(top, ".") && !slices.Contains(topLevel, top) {
			odd[top] = true
		}
	}
	for top := range odd {
		t.Errorf("%s does not belong at the top of the tree", top)
	}
}
