package shell

import (
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// A block is redrawn in place, cut to the window, and out of the way of what else
// is printed.
func TestRedraw(t *testing.T) {
	var out strings.Builder
	terminal := Output{W: &out, TTY: true, Size: func() (int, int) { return 10, 4 }}
	s := &screen{out: terminal, err: terminal, printer: render.Printer{W: &out, Format: render.Text, Safe: true}}
	r := s.region(commands.Answers)
	draw := func(lines []string, want string) {
		t.Helper()
		out.Reset()
		if err := r.Draw(lines...); err != nil || out.String() != want {
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
	out.Reset()
	if err := r.Close(true); err != nil || out.String() != "" {
		t.Errorf("%q, %v", out.String(), err)
	}
	r = s.region(commands.Answers)
	draw([]string{"new"}, "new\n")
	out.Reset()
	if err := s.answer(plain("answer\n")); err != nil || out.String() != "\r\x1b[1A\x1b[Janswer\nnew\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRedrawNeedsATerminal(t *testing.T) {
	var out strings.Builder
	for _, p := range []render.Printer{{Format: render.Text}, {Format: render.JSON, Safe: true}} {
		p.W = &out
		s := &screen{out: Output{W: &out, TTY: p.Safe}, err: Output{W: &out}, printer: p}
		r := s.region(commands.Answers)
		if columns, rows := r.Size(); columns != 0 || rows != 0 || r.Draw("x") != nil || out.Len() > 0 {
			t.Errorf("%d by %d, printed %q", columns, rows, out.String())
		}
	}
}
