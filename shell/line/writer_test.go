//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"strings"
	"testing"

	prompt "github.com/c-bata/go-prompt"
)

// A testWriter is a promptWriter that writes to an emulated terminal.
type testWriter struct {
	*promptWriter
	vt       *vt
	view     view
	messages string
}

func newTestWriter(columns, rows int) *testWriter {
	s := &testWriter{vt: newVT(columns, rows)}
	s.promptWriter = &promptWriter{to: s.vt, color: colors16,
		size: func() (int, int) { return s.vt.columns, s.vt.rows },
		frame: func() (string, view) {
			m := s.messages
			s.messages = ""
			return m, s.view
		}}
	return s
}

// render draws a line without a menu, with the calls that go-prompt makes.
func (s *testWriter) render(text string, cursor int) {
	s.view.text, s.view.cursor = text, cursor
	s.HideCursor()
	s.SetColor(prompt.Blue, prompt.DefaultColor, false)
	s.WriteStr("go-prompt's own line is not let through")
	s.ShowCursor()
}

func (s *testWriter) want(t *testing.T, row, column int, rows ...string) {
	t.Helper()
	if got := s.vt.shown(); got != strings.Join(rows, "\n") {
		t.Errorf("the screen shows\n%s\nnot\n%s", got, strings.Join(rows, "\n"))
	}
	if got := s.vt.cursor(); got != [2]int{row, column} {
		t.Errorf("the cursor is at %v, not at %d, %d", got, row, column)
	}
}

func TestWriterDraws(t *testing.T) {
	for _, c := range []struct {
		name   string
		text   string
		cursor int
		at     [2]int
		rows   []string
	}{
		{"empty", "", 0, [2]int{0, 2}, []string{"#"}},
		{"a line", "ls /", 4, [2]int{0, 6}, []string{"# ls /"}},
		{"in the middle", "ls /", 1, [2]int{0, 3}, []string{"# ls /"}},
		{"up to the edge", "12345678", 8, [2]int{1, 0}, []string{"# 12345678"}},
		{"around the edge", "123456789", 9, [2]int{1, 1}, []string{"# 12345678", "9"}},
		{"cursor behind the edge", "123456789", 8, [2]int{1, 0}, []string{"# 12345678", "9"}},
		{"three rows", "12345678abcdefghijX", 3, [2]int{0, 5}, []string{"# 12345678", "abcdefghij", "X"}},
		{"wide", "中文", 1, [2]int{0, 4}, []string{"# 中文"}},
		{"wide up to the edge", "一二三四", 4, [2]int{1, 0}, []string{"# 一二三四"}},
		{"wide over the edge", "1一二三四五", 6, [2]int{1, 4}, []string{"# 1一二三", "四五"}},
		{"cursor before such a one", "1一二三四五", 4, [2]int{0, 9}, []string{"# 1一二三", "四五"}},
		{"what hides", "a\u200bb\x1b[2Jc\td", 10, [2]int{1, 2}, []string{"# a?b?[2Jc", " d"}},
		{"combining", "e\u0301x", 3, [2]int{0, 4}, []string{"# e\u0301x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTestWriter(10, 8)
			s.view.prompt = Prompt{Text: "# "}
			s.render(c.text, c.cursor)
			s.want(t, c.at[0], c.at[1], c.rows...)
			s.render(c.text, c.cursor) // again, over itself
			s.want(t, c.at[0], c.at[1], c.rows...)
			s.render("", 0)
			s.want(t, 0, 2, "#")
			s.render(c.text, c.cursor)
			s.endLine()
			below := len(c.rows)
			if strings.HasSuffix(c.name, "up to the edge") { // the cursor was on an empty row after the text
				below++
			}
			s.want(t, below, 0, c.rows...)
		})
	}
}

// A wide character that does not fit at the end of a row leaves no old character there.
func TestWriterWraps(t *testing.T) {
	s := newTestWriter(10, 8)
	s.view.prompt = Prompt{Text: "# "}
	s.render("12345678", 8)
	s.render("1234567中", 8)
	s.want(t, 1, 2, "# 1234567", "中")
}

func TestWriterMessages(t *testing.T) {
	s := newTestWriter(10, 8)
	s.view.prompt = Prompt{Text: "# "}
	s.render("1234567890", 9)
	s.messages = "an event\n0123456789\n"
	s.render("1234567890", 9)
	s.want(t, 3, 1, "an event", "0123456789", "# 12345678", "90")
	s.messages = "more\n"
	s.render("1", 1)
	s.want(t, 3, 3, "an event", "0123456789", "more", "# 1")
	s.clear()
	s.render("1", 1)
	s.want(t, 0, 3, "# 1")
	for range 8 { // past the last row
		s.messages += "x\n"
	}
	s.render("abcdefghi", 0)
	s.want(t, 6, 2, "x", "x", "x", "x", "x", "x", "# abcdefgh", "i")
}

// If a line is longer than the screen, only the part around the cursor is drawn.
func TestWriterCuts(t *testing.T) {
	s := newTestWriter(10, 4)
	s.view.prompt = Prompt{Text: "# "}
	text := strings.Repeat("0123456789", 5)
	s.render(text, 0)
	s.want(t, 0, 2, "# 01234567", "8…")
	s.render(text, 50)
	s.want(t, 1, 2, "# …1234567", "89")
	s.render(text, 25)
	s.want(t, 0, 7, "# …1234567", "89…")
}

// When the width of the window changes, the terminal rewraps the line. The new line is drawn at its
// new beginning.
func TestWriterResize(t *testing.T) {
	for _, columns := range []int{5, 7, 10, 13, 30} {
		s := newTestWriter(10, 8)
		s.view.prompt = Prompt{Text: "# "}
		s.messages = "above\n"
		s.render("1234567890abc", 12)
		vt := newVT(columns, 8)
		s.promptWriter.to, s.vt = vt, vt
		if _, err := vt.Write([]byte("above\n# 1234567890ab")); err != nil { // up to the cursor
			t.Fatal(err)
		}
		row, column := vt.row, vt.column
		if column == columns { // the writer moves the cursor to the next row at the edge
			row, column = row+1, 0
		}
		_, _ = vt.Write([]byte("c"))
		vt.row, vt.column = row, column
		s.resized()
		s.want(t, 1, 0, "above")
		s.render("xyz", 3)
		s.want(t, 1+5/columns, 5%columns, "above", "# xyz")
	}
}

// menu draws two proposals with the calls that go-prompt makes. The second one is selected.
func (s *testWriter) menu() {
	s.HideCursor()
	for range 2 {
		s.ScrollDown()
	}
	for range 2 {
		s.ScrollUp()
	}
	s.SetColor(prompt.White, prompt.Cyan, false)
	for i, text := range []string{" one ", " two "} {
		s.CursorDown(1)
		s.SetColor(prompt.White, prompt.DarkGray, false)
		if i == 1 {
			s.SetColor(prompt.Black, selectedColor, true)
		}
		s.WriteStr(text)
		s.SetColor(prompt.DefaultColor, prompt.DefaultColor, false)
		s.CursorBackward(5)
	}
	s.CursorUp(2)
	s.SetColor(previewColor, prompt.DefaultColor, false)
	s.WriteStr("a preview is not let through")
	s.ShowCursor()
}

func TestWriterMenu(t *testing.T) {
	for _, color := range []bool{true, false} {
		s := newTestWriter(20, 3)
		if !color {
			s.color = nil
		}
		s.view = view{prompt: Prompt{Text: "# ", Alert: true}, text: "get ", cursor: 4, menu: 6}
		s.messages = "above\nabove\n"
		s.menu()
		s.want(t, 0, 6, "# get", "       one", "       two")
		style, alert := "1;30;106", "31"
		if !color {
			style, alert = "7", "7"
		}
		if got := s.vt.styled(style); !strings.HasSuffix(got, "{ two }") || strings.Count(got, "{") != 1 {
			t.Errorf("selected is %q", got)
		}
		if got := s.vt.styled(alert); strings.HasPrefix(got, "{# ") != color {
			t.Errorf("the prompt is %q", got)
		}
		for style := range s.vt.styles {
			if !color && style != "0" && style != "0;7" {
				t.Errorf("the colour %q", style)
			}
		}
	}
}
