package render

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// A safeWriter escapes every character that could control a terminal or be invisible on it: control
// characters except newline and tab, characters that are Hidden, and bytes that are not UTF-8.
type safeWriter struct {
	w      io.Writer
	json   bool   // use escapes of JSON
	rest   []byte // bytes at the end of the last Write that cannot be decoded yet
	before rune   // the character before rest
}

// Write writes p with escapes. If p ends inside a character, Write holds back the first bytes of
// that character until the next call.
func (s *safeWriter) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	s.rest = nil
	var b strings.Builder
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		if !utf8.FullRune(in) || r == joiner && !utf8.FullRune(in[n:]) {
			// A write ends inside a character only if the buffer of bufio was full, because the
			// last write of a value ends with a newline.
			s.rest = append([]byte(nil), in...)
			break
		}
		switch {
		case r == '\n', r == '\t', r == joiner && joins(s.before, in[n:]):
			b.WriteRune(r)
		case s.json && Hidden(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			writeSafe(&b, r, in[:n])
		}
		in, s.before = in[n:], r
	}
	if _, err := io.WriteString(s.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func writeSafe(b *strings.Builder, r rune, raw []byte) {
	switch {
	case r == utf8.RuneError && len(raw) == 1, r < 0x20, r == 0x7f:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case !Hidden(r):
		b.Write(raw)
	case r <= 0xFFFF:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// Hidden reports whether a terminal does not show r as a visible character of its own. Such
// characters are control characters and characters that have no width, are invisible, break a
// line or reorder it. Two names that differ only in such characters look the same.
func Hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// joiner is the zero-width joiner, which combines the two emoji on either side into one.
const joiner = '\u200d'

// joins reports whether a joiner combines two emoji. before is the character before the joiner, and
// rest is the text after it. Everywhere else, a joiner is an invisible character that must be
// escaped.
func joins(before rune, rest []byte) bool {
	after, _ := utf8.DecodeRune(rest)
	return isEmojiPart(before) && isEmojiPart(after)
}

// isEmojiPart reports whether r can be the first or last character of an emoji: a picture, a
// skin tone, or the variation selector for colour.
func isEmojiPart(r rune) bool {
	return unicode.Is(unicode.So, r) || r >= 0x1f3fb && r <= 0x1f3ff || r == 0xfe0f
}

// lineEscaper escapes the control characters that a safeWriter does not escape.
var lineEscaper = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Safe escapes a string for output on a terminal. It also escapes newlines and tabs.
func Safe(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s // nearly all strings are plain ASCII
	}
	var b strings.Builder
	w := safeWriter{w: &b}
	_, _ = w.Write([]byte(s + "\n")) // a Builder returns no error
	return lineEscaper.Replace(strings.TrimSuffix(b.String(), "\n"))
}

// OneLine escapes the line breaks in a name. Otherwise, one name could look like two on a terminal
// or in a pipe. ZooKeeper rejects names with line breaks, but servers of other products may accept
// them.
func OneLine(name string) string { return strings.ReplaceAll(name, "\n", `\n`) }

// Bold surrounds text with the escape sequences that make it bold on a terminal.
func Bold(text string) string { return "\x1b[1m" + text + "\x1b[0m" }

// Overstrike makes text bold in a pager, in the same way as man: each character is printed twice
// at the same position.
func Overstrike(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.IsSpace(r) {
			b.WriteRune(r)
			b.WriteByte('\b')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Cut truncates a line to the given number of columns.
func Cut(line string, columns int) string {
	return runewidth.Truncate(line, max(columns, 0), "…")
}

// CutMiddle shortens a line to the given number of columns by cutting out its middle. end is the
// number of columns at the end of the line that remain.
func CutMiddle(line string, columns, end int) string {
	if Width(line) <= columns || columns <= end+1 {
		return Cut(line, columns)
	}
	tail := runewidth.TruncateLeft(line, Width(line)-end, "")
	return runewidth.Truncate(line, columns-1-Width(tail), "") + "…" + tail
}

// Wrap breaks a line between words, so that each part fits the given number of columns. Only a
// part with a single word can be wider. All parts except the first begin with indent. If columns
// is below 1, the width is unknown, and the line is returned unchanged.
func Wrap(line string, columns int, indent string) string {
	if columns < 1 || Width(line) <= columns {
		return line
	}
	var b strings.Builder
	at, begun := 0, false // current column, and whether the current part has a word
	for line != "" {
		word := strings.TrimLeft(line, " ")
		gap := line[:len(line)-len(word)]
		if end := strings.IndexByte(word, ' '); end >= 0 {
			word = word[:end]
		}
		line = line[len(gap)+len(word):]
		if begun && at+len(gap)+Width(word) > columns {
			b.WriteString("\n")
			gap, at = indent, 0
		}
		b.WriteString(gap + word)
		at, begun = at+len(gap)+Width(word), true
	}
	return b.String()
}

// WrapText wraps each line of a text. If a line consists of two columns that are separated by
// two spaces, its continuation lines are indented to the second column.
func WrapText(text string, columns int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Wrap(line, columns, strings.Repeat(" ", hangingIndent(line, columns)))
	}
	return strings.Join(lines, "\n")
}

// hangingIndent returns the position where continuation lines of a line start: its second
// column, or its first column if there is no second column or too little room for it.
func hangingIndent(line string, columns int) int {
	first := len(line) - len(strings.TrimLeft(line, " "))
	if gap := strings.Index(line[first:], "  "); gap > 0 {
		rest := strings.TrimLeft(line[first+gap:], " ")
		if second := Width(line[:len(line)-len(rest)]); rest != "" && second <= columns/2 {
			return second
		}
	}
	return first
}

// Width returns the number of terminal columns that a line occupies.
func Width(line string) int { return runewidth.StringWidth(line) }
