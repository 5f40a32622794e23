//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// luminance returns the relative luminance of a color, as WCAG defines it.
func luminance(r, g, b int) float64 {
	linear := func(v int) float64 {
		c := float64(v) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}

// Each color can be read on a black and on a white background.
func TestColorsOnLightAndDark(t *testing.T) {
	number := regexp.MustCompile(`38;5;(\d+)m`)
	for style, begin := range colors256 {
		m := number.FindStringSubmatch(begin)
		if m == nil {
			continue // an attribute such as underlining
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		level := func(v int) int { return []int{0, 95, 135, 175, 215, 255}[v] }
		var l float64
		if n >= 232 {
			l = luminance(8+10*(n-232), 8+10*(n-232), 8+10*(n-232))
		} else {
			n -= 16
			l = luminance(level(n/36), level(n/6%6), level(n%6))
		}
		if dark, light := (l+0.05)/0.05, 1.05/(l+0.05); dark < 3 || light < 3 {
			t.Errorf("style %d: the contrast is %.1f on black and %.1f on white", style, dark, light)
		}
	}
}

func TestPalette(t *testing.T) {
	for want, env := range map[palette]string{
		nil:       "NO_COLOR=1 TERM=xterm-256color",
		colors256: "TERM=tmux-256color",
		colors16:  "TERM=xterm",
	} {
		got := paletteOf(func(name string) string {
			for _, setting := range strings.Fields(env) {
				if value, ok := strings.CutPrefix(setting, name+"="); ok {
					return value
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%s: %v", env, got)
		}
	}
}

func TestStylesOf(t *testing.T) {
	got := stylesOf("中ab c", []Span{{0, 4, KnownCommand}, {6, 7, Flag}})
	if want := []Style{KnownCommand, KnownCommand, Plain, Plain, Flag}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A suggestion wraps like text, the cursor stays before it, and it is gone when the line ends.
func TestWriterSuggests(t *testing.T) {
	for _, c := range []struct {
		text, suggestion string
		row, column      int
		rows             []string
		committed        []string
	}{
		{"get", " /a", 0, 5, []string{"# get{ /a}"}, []string{"# get"}},
		{"get", " /a中文", 0, 5, []string{"# get{ /a中", "文}"}, []string{"# get"}},
		{"get /a/b", "c", 1, 0, []string{"# get /a/b", "{c}"}, []string{"# get /a/b", ""}},
		{"get /a/中", "文", 1, 2, []string{"# get /a/", "中{文}"}, []string{"# get /a/", "中"}},
	} {
		s := newTestWriter(10, 8)
		s.view = view{prompt: Prompt{Text: "# "}, suggestion: c.suggestion}
		for range 2 {
			s.render(c.text, count(c.text))
			if got := s.vt.styled("90"); strings.TrimRight(got, " \n") != strings.Join(c.rows, "\n") {
				t.Errorf("%q %q: %q", c.text, c.suggestion, got)
			}
			if at := s.vt.cursor(); at != [2]int{c.row, c.column} {
				t.Errorf("%q %q: the cursor is at %v", c.text, c.suggestion, at)
			}
		}
		s.endLine()
		s.want(t, len(c.committed), 0, strings.Split(strings.TrimRight(strings.Join(c.committed, "\n"), "\n"), "\n")...)
	}
}

// A cropped line keeps the style of each character, and has no suggestion.
func TestWriterCropsStyles(t *testing.T) {
	s := newTestWriter(10, 4)
	text := strings.Repeat("a", 25) + strings.Repeat("b", 25)
	s.view = view{prompt: Prompt{Text: "# "}, suggestion: "never", styles: stylesOf(text, []Span{{25, 50, UnknownCommand}})}
	s.render(text, 25)
	if got := s.vt.styled("31"); got != "# …aaaa{bbb\nbb}…" {
		t.Errorf("%q", got)
	}
}

// The marks of OSC 133 occur once for each prompt, and again if the prompt moves.
func TestWriterMarks(t *testing.T) {
	s := newTestWriter(10, 8)
	s.view = view{prompt: Prompt{Text: "# "}, command: true}
	want := func(marks ...string) {
		t.Helper()
		if !slices.Equal(s.vt.marks, marks) {
			t.Errorf("the marks are %q, want %q", s.vt.marks, marks)
		}
		s.vt.marks = nil
	}
	s.render("l", 1)
	s.render("ls", 2)
	want("A", "B")
	s.messages = "event\n"
	s.render("ls", 2)
	want("A", "B")
	s.endLine()
	s.beginOutput()
	want("C")
	s.view.prompt.Status = 74
	s.view.command = false // a question
	s.render("", 0)
	want()
	s.view.command = true
	s.render("", 0)
	want("D;74", "A", "B")
}
