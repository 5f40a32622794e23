package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/zktest"
)

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		items []string
		width int
		want  string
	}{
		{[]string{"a", "b", "c", "d", "e"}, 7, "a  c  e\nb  d\n"},
		{[]string{"a", "b", "c", "d"}, 4, "a  c\nb  d\n"},
		{[]string{"long-name", "b"}, 5, "long-name\nb\n"},
		{[]string{"中文", "ab", "c"}, 8, "中文  c\nab\n"},
		{[]string{"\x1b[2J", "b", "c"}, 12, "\\x1b[2J  c\nb\n"},
	} {
		var b strings.Builder
		if err := writeColumns(&b, c.items, nil, c.width); err != nil || b.String() != c.want {
			t.Errorf("%q in %d: %q, %v; want %q", c.items, c.width, b.String(), err, c.want)
		}
	}
}

// The columns contain every name, and no line is too wide unless a single name is.
func TestColumnsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.StringMatching(`[a-z中😀]{1,30}`), 1, 60).Draw(t, "items")
		width := rapid.IntRange(1, 100).Draw(t, "width")
		var b strings.Builder
		zktest.Must(t, writeColumns(&b, items, nil, width))
		if got := len(strings.Fields(b.String())); got != len(items) {
			t.Errorf("%d names of %d", got, len(items))
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := runewidth.StringWidth(line); n > width && len(strings.Fields(line)) > 1 {
				t.Errorf("a line of %d columns in %d: %q", n, width, line)
			}
		}
	})
}

func TestManyColumns(t *testing.T) {
	var items []string
	for i := range 100_000 {
		items = append(items, fmt.Sprintf("node-%06d", i))
	}
	var b strings.Builder
	zktest.Must(t, writeColumns(&b, items, nil, 80))
	if got := strings.Count(b.String(), "\n"); got != 16667 { // six columns of 13
		t.Errorf("%d rows", got)
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", 59 * time.Second: "59 s ago", 3 * time.Minute: "3 m ago", 47 * time.Hour: "47 h ago",
		48 * time.Hour: "2 days ago", 999 * 24 * time.Hour: "999 days ago", 4 * 365 * 24 * time.Hour: "4 years ago",
	} {
		if got := ago(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
