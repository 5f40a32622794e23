package shell

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/render"
)

// A block is redrawn in place, cut to the window, and out of the way of what else
// is printed.
func TestRedraw(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out, err: &out, errTTY: true, width: func() int { return 10 }, rows: func() int { return 4 },
		printer: render.Printer{W: &out, Format: render.Text, Safe: true}}
	draw := func(lines []string, want string) {
		t.Helper()
		out.Reset()
		if err := s.redraw(lines); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
	draw([]string{"one", "two\x1b[2J"}, "one\ntwo\\x1b[…\n")
	draw([]string{"a", "b", "c", "d", "e"}, "\r\x1b[2Aa\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J")
	out.Reset()
	s.complain("oh")
	if got := out.String(); got != "\r\x1b[3A\x1b[Joh\na\nb\nc\n" {
		t.Errorf("%q", got)
	}
	draw(nil, "")
	draw([]string{"new"}, "new\n")
	out.Reset()
	if err := s.answer(plain("answer\n")); err != nil || out.String() != "\r\x1b[1A\x1b[Janswer\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRedrawNeedsATerminal(t *testing.T) {
	var out strings.Builder
	for _, p := range []render.Printer{{Format: render.Text}, {Format: render.JSON, Safe: true}} {
		p.W = &out
		s := &screen{out: &out, err: &out, width: func() int { return 10 }, rows: func() int { return 4 }, printer: p}
		if columns, rows := s.window(); columns != 0 || rows != 0 || s.redraw([]string{"x"}) != nil || out.Len() > 0 {
			t.Errorf("%d by %d, printed %q", columns, rows, out.String())
		}
	}
}
