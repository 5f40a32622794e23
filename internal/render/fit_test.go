package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
		5:  {{"who", "where"}, {"ann", "~ away"}, {"李…", "here"}}, // all the steps there are
	} {
		f := g.Fit(columns, steps...)
		if diff := cmp.Diff(want, append([][]string{f.Header}, f.Rows...)); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
}
