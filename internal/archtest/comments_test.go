package archtest

import (
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// retiredInComments lists more wording that comments must not contain. Comments also have to
// follow the conventions of Go's documentation.
var retiredInComments = []wording{
	{regexp.MustCompile(`(?i)\b(is|are|was|were|been|be|being) ([a-z]+ )?told\b`), "is reported, is printed", regexp.MustCompile(`(?i)\btold (otherwise|apart)\b`)},
	{regexp.MustCompile(`(?i)\b(teller|errands?|criers?|rooms)\b`), "reporter; probe; notifier; packages", nil},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) no [a-z]`), "is not a", regexp.MustCompile(`(?i)\bthere (is|are|was|were) no\b|\b(is|are|was|were) no (longer|more|less|fewer|different|larger|smaller|worse|better)\b`)},
	{regexp.MustCompile(`(?i)\bstands? behind\b`), "follows, is after", nil},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been) refused\b`), "is rejected, fails with", regexp.MustCompile(`(?i)\b(connect|port|dial|listen)[^.;]*\brefused\b`)},
	{regexp.MustCompile(`\b[Ww]hoever\b|(^|[.;:] +|- )Who [a-z]`), "the client, the holder, the waiter", nil},
	{regexp.MustCompile(`\b(let|lets|letting) (it |them )?go\b`), "release", regexp.MustCompile(`\blets? go (test|vet|build|list|run|mod|install|doc|tool|fmt|generate|get)\b`)},
	{regexp.MustCompile(`(?i)\bblanks\b|\b(a|the|no|one|each) blank\b`), "space", regexp.MustCompile(`(?i)\bblank (lines?|identifiers?|imports?|rows?|cells?|page|screen)\b`)},
	{regexp.MustCompile(`(?i)\bas \S+ has it\b`), "in the format of, according to", nil},
	{regexp.MustCompile(`\bthe own\b`), "its own", nil},
	{regexp.MustCompile(`(?i)\bviz\b|\bcf\. `), "namely; see", nil},
	// The first sentence of a doc comment.
	{regexp.MustCompile(`^[A-Z]\w* is part of (\w+\.)?\w+[.,;:]`), "a declaration var _ I = (*T)(nil), or: X implements I.", nil},
	{regexp.MustCompile(`^\w+ gives (the [\w']+|one \w+|what\b[^.,;:]*)[.,;:]`), "returns", nil},
	{regexp.MustCompile(`^\w+ has ([\w']+ )+(be|do|make|take|become|begin)\b`), "makes X do, asks X to", regexp.MustCompile(`\b(to|can|cannot|could|may|might|must|will|would|should|not|never|and|or) (be|do|make|take|become|begin)\b|\bto have\b`)},
	{regexp.MustCompile(`^(An? |The )?\w+ (is|are) (what|where|who|whom|those)\b`), "a noun, or: X returns, X reports", nil},
}

// inUseInComments lists the exceptions in comments.
var inUseInComments = []exception{
	{"commands/quote.go", "Blanks contains", "the name of a constant"},
	{"lockcmd/queue/note.go", "Who returns", "the name of a function"},
}

// Comments of all packages, tests included, contain no retired wording.
func TestRetiredWordingInComments(t *testing.T) {
	used := map[exception]bool{}
	fset := token.NewFileSet()
	for _, src := range goFiles(t, fset) {
		name := path.Join(src.dir, src.name)
		for _, group := range src.file.Comments {
			text := group.Text()
			// In one line, so that patterns match phrases that are wrapped.
			oneLine := strings.ReplaceAll(strings.TrimSpace(text), "\n", " ")
			for _, f := range findRetired(slices.Concat(retiredEverywhere, retiredInComments), inUseInComments, used, name, oneLine) {
				line := fset.Position(group.Pos()).Line + strings.Count(text[:f.at[0]], "\n")
				t.Errorf("%s:%d: %q: write %q", name, line, around(oneLine, f.at), f.instead)
			}
		}
	}
	wantUsed(t, inUseInComments, used)
}

// The patterns for comments match retired wording, and no similar wording that is correct.
func TestPatternsForComments(t *testing.T) {
	for text, want := range map[string]bool{
		"size tells whether it fits":                            true,
		"size reports whether it fits":                          false,
		"users cannot tell it from the original":                false,
		"the client was never told":                             true,
		"1 MB, unless the server is told otherwise":             false,
		"Unwrap gives the cause.":                               true,
		"join gives the client a name.":                         false,
		"Write is part of io.Writer.":                           true,
		"Write implements io.Writer.":                           false,
		"Package a is part of the program zksh.":                false,
		"run has the command be killed":                         true,
		"run has a command that must be killed":                 false,
		"a line has nothing to do with that":                    false,
		"limit is what a client may take":                       true,
		"limit is how long a client may take":                   false,
		"limit is the longest time; nobody knows what is right": false,
		"Whoever holds the lock":                                true,
		"It ends. Who waits gets it.":                           true,
		"the client who waits":                                  false,
		"the write is refused":                                  true,
		"new connections are refused":                           false,
		"there is no lock":                                      false,
		"a lease is no lock":                                    true,
		"a comment, a blank line":                               false,
		"a name with blanks":                                    true,
		"it lets go test see the files":                         false,
		"the holder lets go":                                    true,
	} {
		if found := findRetired(slices.Concat(retiredEverywhere, retiredInComments), nil, nil, "", text); (len(found) > 0) != want {
			t.Errorf("%q: %v", text, found)
		}
	}
}
