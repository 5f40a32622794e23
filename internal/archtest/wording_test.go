package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A wording is retired wording.
type wording struct {
	pattern *regexp.Regexp
	instead string         // wording to use instead
	except  *regexp.Regexp // longer phrases that are in use although pattern matches; nil if none
}

// An exception is a text in a file that a pattern matches, but that is correct there.
type exception struct{ file, text, why string }

// retiredEverywhere lists wording that documents, comments and the texts of the program must not
// contain.
var retiredEverywhere = []wording{
	{regexp.MustCompile(`(?i)\b(give|gives|gave|given) (it |them )?back\b`), "returns; releases (a lock)", nil},
	{regexp.MustCompile(`(?i)\b(take|takes|took|taken) (it |them )?back\b`), "undo, undone", nil},
	{regexp.MustCompile(`(?i)\bunder way\b`), "in flight, pending, running", nil},
	{regexp.MustCompile(`(?i)\bby hand\b`), "interactively, at the prompt", nil},
	{regexp.MustCompile(`(?i)\bpour(s|ed|ing)?\b`), "flush", nil},
	{regexp.MustCompile(`(?i)\bcircles? of waits\b`), "a deadlock cycle", nil},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|has) there already\b`), "already exists", nil},
	{regexp.MustCompile(`(?i)\btells (of|whether|if|apart|who|whom|whose|what|which|how|where|when|why)\b|\btell (of|whether)\b`), "reports, reports whether; distinguishes", nil},
	{regexp.MustCompile(`(?i)\bdeaf\b`), "muted", nil},
	{regexp.MustCompile(`(?i)\bas far as\b`), "unless; the part that", nil},
}

// retired lists more wording that documents and the texts of the program must not contain.
var retired = []wording{
	{regexp.MustCompile(`(?i)\b(is|are|was|were|been|be) told\b`), "is reported, is printed", nil},
	{regexp.MustCompile(`(?i)\b(is|are) no\b`), "is not a", regexp.MustCompile(`(?i)\bthere (is|are) no\b|\b(is|are) no (longer|more than|less than)\b`)},
	{regexp.MustCompile(`(?i)\bso many\b`), "the number, the maximum number", nil},
	{regexp.MustCompile(`(?i)\bbehind\b`), "after", regexp.MustCompile(`(?i)\bbehind an? [a-z ]*(proxy|load balancer)\b`)},
	{regexp.MustCompile(`(?i)\bblanks?\b`), "space", nil},
	{regexp.MustCompile(`(?i)\brefused\b`), "rejected, fails with", regexp.MustCompile(`(?i)\bconnections?( (is|are|was|were))? refused\b|\brefused( or cut)? connections?\b`)},
	{regexp.MustCompile(`\bWho waits\b`), "the waiter", nil},
	{regexp.MustCompile(`(?i)\b(let|lets) go\b`), "release", nil},
	{regexp.MustCompile("(?i)\\bthe word \\(`"), "the four-letter command", nil},
}

// inUse lists the exceptions in documents and the texts of the program.
var inUse = []exception{
	{"lockcmd/fence_identify.go", "cannot tell whether", "tell means know here"},
	{"lockcmd/wait.go", "behind", place},
	{"shell/manual/keyboard.md", "with blank", "the name of a znode"},
}

const place = "a place in a queue"

// Documents and the texts that the program prints contain no retired wording.
func TestRetiredWording(t *testing.T) {
	used := map[exception]bool{}
	check := func(file, at, text string) {
		for _, f := range findRetired(slices.Concat(retiredEverywhere, retired), inUse, used, file, text) {
			t.Errorf("%s: %q: write %q", at, around(text, f.at), f.instead)
		}
	}
	documents := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
	pages, err := filepath.Glob(filepath.Join(root, "shell/manual/*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages of the manual, %v", len(pages), err)
	}
	for _, page := range pages {
		documents = append(documents, "shell/manual/"+filepath.Base(page))
	}
	for _, name := range documents {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(data), "\n") {
			check(name, name+":"+strconv.Itoa(n+1), line)
		}
	}
	fset := token.NewFileSet()
	for _, src := range goFiles(t, fset) {
		if src.test() {
			continue
		}
		name := path.Join(src.dir, src.name)
		for pos, text := range stringTexts(src.file) {
			check(name, name+":"+strconv.Itoa(fset.Position(pos).Line), text)
		}
	}
	wantUsed(t, inUse, used)
}

// A finding is a match of retired wording.
type finding struct {
	at      []int // start and end in the text
	instead string
}

// findRetired returns the first match in text of each wording in list. It ignores matches in
// exceptions, and adds the exceptions that occur to used.
func findRetired(list []wording, exceptions []exception, used map[exception]bool, file, text string) (all []finding) {
	blanked := func(s string) string { return strings.Repeat("_", len(s)) }
	for _, w := range list {
		rest := text
		if w.except != nil {
			rest = w.except.ReplaceAllStringFunc(rest, blanked)
		}
		for _, e := range exceptions {
			if e.file == file && strings.Contains(rest, e.text) {
				used[e] = true
				rest = strings.ReplaceAll(rest, e.text, blanked(e.text))
			}
		}
		if at := w.pattern.FindStringIndex(rest); at != nil {
			all = append(all, finding{at, w.instead})
		}
	}
	return all
}

// wantUsed checks that all exceptions are needed.
func wantUsed(t *testing.T, exceptions []exception, used map[exception]bool) {
	t.Helper()
	for _, e := range exceptions {
		if !used[e] {
			t.Errorf("%s does not contain %q any more", e.file, e.text)
		}
	}
}

// around returns the match with a few words before and after it.
func around(text string, found []int) string {
	const more = 30
	return strings.ToValidUTF8(text[max(0, found[0]-more):min(len(text), found[1]+more)], "")
}

// stringTexts returns the string literals below n that contain a space, by their positions.
// String literals that are joined with + are one text.
func stringTexts(n ast.Node) map[token.Pos]string {
	all := map[token.Pos]string{}
	ast.Inspect(n, func(n ast.Node) bool {
		if _, is := n.(*ast.ImportSpec); is {
			return false
		}
		e, is := n.(ast.Expr)
		if !is {
			return true
		}
		text, others := joined(e)
		if !strings.Contains(text, " ") {
			return true
		}
		all[e.Pos()] = text
		for _, other := range others {
			maps.Copy(all, stringTexts(other))
		}
		return false
	})
	return all
}

// joined returns the text of a literal, or of several that are joined with +. It also returns
// the other operands, which appear in the text as an ellipsis.
func joined(e ast.Expr) (text string, others []ast.Expr) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text, nil
		}
	case *ast.ParenExpr:
		return joined(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			left, some := joined(e.X)
			right, more := joined(e.Y)
			return left + right, append(some, more...)
		}
	}
	return "…", []ast.Expr{e}
}

// stringTexts returns the texts as the program prints them.
func TestStringTexts(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", `package p
import "a b"
var x = "one " + "text" + name + (" of " + "four")
var y = f("two words", "word", 1+2, "no"+name, f("more words")+" and " + name)
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Values(stringTexts(file)))
	if want := []string{"more words", "one text… of four", "two words", "… and …"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
