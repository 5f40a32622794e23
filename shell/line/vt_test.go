//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// A vt emulates a terminal. It draws its input into cells, and panics on a sequence that it does not
// know.
type vt struct {
	mu            sync.Mutex
	columns, rows int
	cells         [][]cell
	row, column   int
	style         string          // parameters of the last SGR sequence, without a leading 0
	styles        map[string]bool // parameters of all SGR sequences
	marks         []string        // OSC 133 marks
	rest          string          // an incomplete character or sequence
}

type cell struct {
	text  string // "" if the cell is empty or the right half of a wide character
	style string
}

func newVT(columns, rows int) *vt {
	s := &vt{columns: columns, rows: rows, styles: map[string]bool{}}
	for range rows {
		s.cells = append(s.cells, make([]cell, columns))
	}
	return s
}

// sequence matches an escape sequence that the editor may send.
var sequence = regexp.MustCompile(`^\x1b(?:\[(\??)([0-9;]*)([A-Za-z])|[DM]|\]133;([ABCD][;0-9]*)\a)`)

func (s *vt) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.rest + string(p)
	for in != "" && utf8.FullRuneInString(in) {
		if in[0] == 0x1b {
			m := sequence.FindStringSubmatch(in)
			if m == nil && len(in) < 16 {
				break
			} else if m == nil {
				panic(fmt.Sprintf("the sequence %.16q", in))
			}
			s.control(m)
			in = in[len(m[0]):]
			continue
		}
		r, n := utf8.DecodeRuneInString(in)
		s.put(r)
		in = in[n:]
	}
	s.rest = in
	return len(p), nil
}

func (s *vt) put(r rune) {
	width := runewidth.RuneWidth(r)
	switch {
	case r == '\r':
		s.column = 0
	case r == '\n': // as in a terminal with ONLCR
		s.column = 0
		s.down()
	case r < ' ':
		panic(fmt.Sprintf("the character %q", r))
	case width == 0:
		s.cells[s.row][max(s.column-1, 0)].text += string(r)
	default:
		if s.column+width > s.columns {
			s.column = 0
			s.down()
		}
		s.cells[s.row][s.column] = cell{string(r), s.style}
		if width == 2 {
			s.cells[s.row][s.column+1] = cell{"", s.style}
		}
		s.column += width
	}
}

func (s *vt) down() {
	if s.row++; s.row == s.rows {
		s.row--
		s.cells = append(s.cells[1:], make([]cell, s.columns))
	}
}

func (s *vt) control(m []string) {
	if m[4] != "" {
		s.marks = append(s.marks, m[4])
		return
	}
	n, _ := strconv.Atoi(m[2])
	n = max(n, 1)
	switch m[0] {
	case "\x1bD":
		s.down()
		return
	case "\x1bM":
		s.row = max(s.row-1, 0)
		return
	}
	switch kind := m[1] + m[3]; {
	case kind == "A":
		s.row = max(s.row-n, 0)
	case kind == "B":
		s.row = min(s.row+n, s.rows-1)
	case kind == "C":
		s.column = min(s.column+n, s.columns-1)
	case kind == "H" && m[2] == "":
		s.row, s.column = 0, 0
	case kind == "J":
		if m[2] == "" {
			clear(s.cells[s.row][min(s.column, s.columns-1):])
		}
		for row := range s.cells {
			if row > s.row || m[2] == "2" {
				clear(s.cells[row])
			}
		}
	case kind == "K" && m[2] == "":
		clear(s.cells[s.row][min(s.column, s.columns-1):])
	case kind == "m":
		s.style = strings.Trim(strings.TrimPrefix(m[2], "0"), ";")
		s.styles[m[2]] = true
	case m[1] == "?": // cursor visibility and bracketed paste
	default:
		panic(fmt.Sprintf("the sequence %q", m[0]))
	}
}

// shown returns the text on the screen, without spaces at the ends of rows and empty rows at the
// bottom.
func (s *vt) shown() string {
	return s.render(func(c cell) string { return c.text })
}

// styled returns the text on the screen, with braces around the text in one of the given styles.
func (s *vt) styled(styles ...string) string {
	inside := false
	text := s.render(func(c cell) string {
		before := ""
		stands := false
		for _, style := range styles {
			stands = stands || c.style == style
		}
		if stands != inside {
			before = map[bool]string{true: "{", false: "}"}[stands]
			inside = stands
		}
		return before + c.text
	})
	return text
}

func (s *vt) render(of func(cell) string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []string
	for _, cells := range s.cells {
		var b strings.Builder
		wide := false
		for _, c := range cells {
			text := of(c)
			if c.text == "" && !wide {
				text += " "
			}
			wide = c.text != "" && runewidth.StringWidth(c.text) == 2
			b.WriteString(text)
		}
		rows = append(rows, strings.TrimRight(b.String(), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// cursor returns the row and column in which the cursor is visible.
func (s *vt) cursor() [2]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return [2]int{s.row, min(s.column, s.columns-1)}
}
