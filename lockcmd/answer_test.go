package lockcmd

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
)

// On a narrow terminal, a lock's answer line shortens the znode's name and nothing else.
func TestLockLineFits(t *testing.T) {
	const node = "_c_1b7a6e8c-0a53-4a2e-9d0f-6a1c1f3f2b11-lock-0000000042"
	for _, l := range []lockLine{
		{"locked", "/锁/作业", "mode", "write", "node", node, "token", "0x6b0292ab0000006e", "waited", 0.0123},
		queuedLine("/锁/作业", "write", node, 3),
	} {
		var whole strings.Builder
		if err := l.Text(&whole); err != nil || !strings.Contains(whole.String(), " node="+node+" ") {
			t.Errorf("%q, %v", whole.String(), err)
		}
		for columns, exact := range map[int]bool{200: false, 100: true, 90: true, 60: false} {
			var b strings.Builder
			if err := l.FitText(&b, columns); err != nil {
				t.Fatal(err)
			}
			for part := range strings.Lines(b.String()) {
				if width := render.Width(strings.TrimSuffix(part, "\n")); width > columns {
					t.Errorf("in %d columns it has %d: %q", columns, width, part)
				}
			}
			line := strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\n  ", " ")
			head, rest, _ := strings.Cut(line, " node=")
			short, tail, _ := strings.Cut(rest, " ")
			if columns == 200 && b.String() != whole.String() || !strings.HasPrefix(whole.String(), head+" node=") ||
				!strings.HasSuffix(whole.String(), " "+tail+"\n") || !strings.HasSuffix(short, "00042") {
				t.Errorf("in %d columns: %q", columns, line)
			}
			if width := render.Width(line); exact && width != columns && short != node {
				t.Errorf("in %d columns it has %d: %q", columns, width, line)
			}
		}
		g := l.Table()
		if g.Header[0] != l[0] || g.Rows[0][0] != "/锁/作业" || g.Rows[0][2] != node || len(g.Rows[0]) != len(l)/2 {
			t.Errorf("%+v", g)
		}
	}
}

// A path or an owner's name cannot add fields to the line. JSON and tables need no quotes.
func TestLockLineQuotes(t *testing.T) {
	for value, want := range map[string]string{
		"web-1": "web-1", "x since=2020 until=expiry": `"x since=2020 until=expiry"`, "until=expiry": `"until=expiry"`,
		`a "b"`: `'a "b"'`, `"`: `'"'`, "Anna Müller (张三)": `"Anna Müller (张三)"`, "a\u2028mode=x": `$'a\u2028mode=x'`,
	} {
		l := lockLine{"locked", value, "owner", value, "until", "unlock"}
		if got := l.line(0); got != "locked "+want+" owner="+want+" until=unlock" {
			t.Errorf("%q: %s", value, got)
		}
		if row := l.Table().Rows[0]; row[0] != value || row[1] != value {
			t.Errorf("%q: %q", value, row)
		}
	}
}
