package render

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// safeWriter keeps what could drive a terminal from reaching it: control
// characters other than newline and tab, characters that reorder a line, and
// bytes that are no UTF-8, all shown as escapes.
type safeWriter struct {
	w    io.Writer
	json bool   // escapes must be JSON's
	rest []byte // an unfinished character at the end of the last Write
}

// Write escapes p. It may hold back the start of a character until the next Write.
func (s *safeWriter) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	s.rest = nil
	var b strings.Builder
	for len(in) > 0 {
		if !utf8.FullRune(in) {
			// Only a whole buffer of bufio ends inside a character; the last
			// write of a value ends with a newline.
			s.rest = append([]byte(nil), in...)
			break
		}
		r, n := utf8.DecodeRune(in)
		if s.json && r == 0x7f {
			b.WriteString(`\u007f`)
		} else {
			writeSafe(&b, r, in[:n])
		}
		in = in[n:]
	}
	if _, err := io.WriteString(s.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func writeSafe(b *strings.Builder, r rune, raw []byte) {
	switch {
	case r == '\n' || r == '\t':
		b.WriteRune(r)
	case r == utf8.RuneError && len(raw) == 1, r < 0x20, r == 0x7f:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == 0x2028, r == 0x2029:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		b.Write(raw)
	}
}

// Safe escapes one string for a terminal, newlines and tabs included.
func Safe(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		default:
			writeSafe(&b, r, []byte(s[i:i+n]))
		}
		i += n
	}
	return b.String()
}

// Cut shortens a line to so many columns of a terminal.
func Cut(line string, columns int) string {
	return runewidth.Truncate(line, max(columns, 0), "…")
}

// CutMiddle shortens a line to so many columns of a terminal, of which the last
// ones show its end.
func CutMiddle(line string, columns, end int) string {
	if Width(line) <= columns || columns <= end+1 {
		return Cut(line, columns)
	}
	tail := runewidth.TruncateLeft(line, Width(line)-end, "")
	return runewidth.Truncate(line, columns-1-Width(tail), "") + "…" + tail
}

// Width is how many columns of a terminal a line takes.
func Width(line string) int { return runewidth.StringWidth(line) }
