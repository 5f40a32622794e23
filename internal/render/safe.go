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

// safeWriter keeps what could drive a terminal, or hide on it, from reaching it:
// control characters other than newline and tab, the characters that Hidden
// tells, and bytes that are no UTF-8, all shown as escapes.
type safeWriter struct {
	w      io.Writer
	json   bool   // escapes must be JSON's
	rest   []byte // at the end of the last Write: what cannot be judged yet
	before rune   // the character before that
}

// Write escapes p. It may hold back the start of a character until the next Write.
func (s *safeWriter) Write(p []byte) (int, error) {
	in := append(s.rest, p...)
	s.rest = nil
	var b strings.Builder
	for len(in) > 0 {
		r, n := utf8.DecodeRune(in)
		if !utf8.FullRune(in) || r == joiner && !utf8.FullRune(in[n:]) {
			// Only a whole buffer of bufio ends inside a character; the last
			// write of a value ends with a newline.
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

// Hidden tells a character that a terminal does not show as one: a control
// character, or one that takes no room, looks like none, breaks a line or reorders
// it. Two names that differ in such a character look the same.
func Hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point)
}

// joiner makes one picture of those on both sides of it.
const joiner = '\u200d'

// joins reports whether a joiner between a character and the rest of a text does that.
// Anywhere else it hides.
func joins(before rune, rest []byte) bool {
	after, _ := utf8.DecodeRune(rest)
	return pictorial(before) && pictorial(after)
}

// pictorial tells a character that an emoji may begin or end with: a picture, a skin
// tone, or the mark that asks for colours.
func pictorial(r rune) bool {
	return unicode.Is(unicode.So, r) || r >= 0x1f3fb && r <= 0x1f3ff || r == 0xfe0f
}

// oneLine escapes the characters that a safeWriter lets through.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Safe escapes one string for a terminal, newlines and tabs included.
func Safe(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s // as nearly all are
	}
	var b strings.Builder
	w := safeWriter{w: &b}
	_, _ = w.Write([]byte(s + "\n")) // a Builder takes everything
	return oneLine.Replace(strings.TrimSuffix(b.String(), "\n"))
}

// OneLine escapes the line breaks of a name. ZooKeeper rejects names that have one, but
// other servers may not, and a name must not look like two, in a pipe as little as on a
// terminal.
func OneLine(name string) string { return strings.ReplaceAll(name, "\n", `\n`) }

// Bold makes words bold on a terminal.
func Bold(text string) string { return "\x1b[1m" + text + "\x1b[0m" }

// Overstrike makes words bold in a pager, as man does: each character is printed twice in its
// place.
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

// Wrap breaks a line between words, so that no more than one word of each of its lines
// is wider than so many columns of a terminal; below 1 they are not known, and it stays.
// All lines but the first begin with indent.
func Wrap(line string, columns int, indent string) string {
	if columns < 1 || Width(line) <= columns {
		return line
	}
	var b strings.Builder
	at, begun := 0, false // the column, and whether the line has a word
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

// WrapText is Wrap for each line of a text. Where a line has two columns, what is broken
// off goes on in the second.
func WrapText(text string, columns int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Wrap(line, columns, strings.Repeat(" ", hang(line, columns)))
	}
	return strings.Join(lines, "\n")
}

// hang is how far the second column of a line is from its start, or where there is none,
// or too little room for it, the first one.
func hang(line string, columns int) int {
	first := len(line) - len(strings.TrimLeft(line, " "))
	if gap := strings.Index(line[first:], "  "); gap > 0 {
		rest := strings.TrimLeft(line[first+gap:], " ")
		if second := Width(line[:len(line)-len(rest)]); rest != "" && second <= columns/2 {
			return second
		}
	}
	return first
}

// Width is how many columns of a terminal a line takes.
func Width(line string) int { return runewidth.StringWidth(line) }
