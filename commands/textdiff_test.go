package commands

import (
	"strings"
	"testing"
)

func TestTextDiff(t *testing.T) {
	for _, c := range [][3]string{
		{"a", "b", "- a|+ b|"},
		{"", "a\nb", "+ a|+ b|"},
		{"a\nb\n", "", "- a|- b|"},
		{"a", "a", ""},
		{"a", "a\n", "only the line break at the end has changed|"},
		{"1\n2\n3\n4\n5\n6\n7", "1\n2\n3\nx\n5\n6\n7", "  …|  2|  3|- 4|+ x|  5|  6|  …|"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9", "x\n2\n3\n4\n5\n6\n7\n8\ny", "- 1|+ x|  2|  3|  …|  7|  8|- 9|+ y|"},
		{"a\nb\nc", "a\nc\nb", "  a|+ c|  b|- c|"},
		{"文\n件", "文\n 件", "  文|- 件|+  件|"},
	} {
		if got := strings.ReplaceAll(textDiff(c[0], c[1]), "\n", "|"); got != c[2] {
			t.Errorf("%q to %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	// A difference too long for the algorithm to minimize is still complete.
	long, other := strings.Repeat("a\n", 3000), strings.Repeat("b\n", 3000)
	if got := textDiff(long, other); strings.Count(got, "- a\n") != 3000 || strings.Count(got, "+ b\n") != 3000 {
		t.Errorf("%d bytes of a long diff", len(got))
	}
}
