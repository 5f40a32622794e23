package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGridFit(t *testing.T) {
	g := Grid{Header: []string{"place", "who", "where"}, Rows: [][]string{{"1", "ann", "somewhere far away"}, {"22", "李小龍", "here"}}}
	steps := []Step{
		{Column: 2, Width: 6, Cut: func(s string, width int) string { return "~" + s[len(s)-width+1:] }},
		{Column: 0}, {Column: 1, Width: 4},
	}
	for columns, want := range map[int][][]string{
		0:  {{"place", "who", "where"}, {"1", "ann", "somewhere far away"}, {"22", "李小龍", "here"}},
		99: {{"place", "who", "where"}, {"1", "ann", "somewhere far away"}, {"22", "李小龍", "here"}},
		33: {{"place", "who", "where"}, {"1", "ann", "somewhere far away"}, {"22", "李小龍", "here"}},
		32: {{"place", "who", "where"}, {"1", "ann", "~mewhere far away"}, {"22", "李小龍", "here"}},
		21: {{"place", "who", "where"}, {"1", "ann", "~ away"}, {"22", "李小龍", "here"}},
		20: {{"who", "where"}, {"ann", "~ away"}, {"李小龍", "here"}},
		13: {{"who", "where"}, {"ann", "~ away"}, {"李小…", "here"}},
		5:  {{"who", "where"}, {"ann", "~ away"}, {"李…", "here"}}, // all steps were taken
	} {
		f := g.Fit(columns, steps...)
		if diff := cmp.Diff(want, append([][]string{f.Header}, f.Rows...)); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
}

// Wrap keeps all words, and no line with two or more words is too wide.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOf(rapid.StringMatching(`[a-z中]{0,12}`)).Draw(t, "words"), " ")
		columns := rapid.IntRange(-1, 40).Draw(t, "columns")
		indent := strings.Repeat(" ", rapid.IntRange(0, 5).Draw(t, "indent"))
		got := Wrap(line, columns, indent)
		if !slices.Equal(strings.Fields(got), strings.Fields(line)) || (columns < 1 || Width(line) <= columns) && got != line {
			t.Errorf("%q in %d: %q", line, columns, got)
		}
		for i, l := range strings.Split(got, "\n") {
			if columns > 0 && Width(l) > columns && len(strings.Fields(l)) > 1 {
				t.Errorf("%q is wider than %d", l, columns)
			}
			if i > 0 && !strings.HasPrefix(l, indent) {
				t.Errorf("%q does not begin with %q", l, indent)
			}
		}
	})
}

func TestWrapText(t *testing.T) {
	for columns, want := range map[int]string{
		0:  "no such 節點 here\n  -a, --all  all of them\n\n  75  the time is up\n",
		16: "no such 節點\nhere\n  -a, --all  all\n  of them\n\n  75  the time\n      is up\n",
		11: "no such\n節點 here\n  -a, --all\n  all of\n  them\n\n  75  the\n  time is\n  up\n",
	} {
		const text = "no such 節點 here\n  -a, --all  all of them\n\n  75  the time is up\n"
		if got := WrapText(text, columns); got != want {
			t.Errorf("%d: %q, want %q", columns, got, want)
		}
	}
}
