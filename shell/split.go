package shell

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/commands"
)

// blanks are the bytes that separate words: what \s means to zkCli. Wider
// Unicode spaces are data, as node names may hold them.
const blanks = " \t\n\v\f\r"

// split cuts a line into words the way zkCli does: blanks separate, "…" and
// '…' hold anything but their own quote, a closing quote ends the word, a
// quote inside a plain word is an ordinary character, and a backslash has no
// meaning.
//
// It differs where zkCli guesses. A quote that is never closed is an error;
// zkCli drops the quote, or runs the previous command again. And $'…' is a
// word with bash's escapes, so that every byte string can be written.
func split(line string) ([]commands.Word, error) {
	var words []commands.Word
	for i := 0; ; {
		i = len(line) - len(strings.TrimLeft(line[i:], blanks))
		if i == len(line) {
			return words, nil
		}
		rest := line[i:]
		switch {
		case rest[0] == '"' || rest[0] == '\'':
			n := strings.IndexByte(rest[1:], rest[0])
			if n < 0 {
				return nil, fmt.Errorf("unclosed %c at column %d; close it, or write the word as $'…'", rest[0], column(line, i))
			}
			words = append(words, commands.Word{Text: rest[1 : 1+n], Quoted: true})
			i += n + 2
		case strings.HasPrefix(rest, "$'"):
			text, next, err := ansiWord(line, i)
			if err != nil {
				return nil, err
			}
			words = append(words, commands.Word{Text: text, Quoted: true})
			i = next
		default:
			n := strings.IndexAny(rest, blanks)
			if n < 0 {
				n = len(rest)
			}
			words = append(words, commands.Word{Text: rest[:n]})
			i += n
		}
	}
}

// column turns a byte offset into the position a user would count on screen,
// from 1.
func column(line string, offset int) int {
	return utf8.RuneCountInString(line[:offset]) + 1
}

// ansiWord decodes the $'…' word that starts at line[start] and says where
// the text after it begins.
func ansiWord(line string, start int) (text string, next int, err error) {
	var out []byte
	for i := start + len("$'"); i < len(line); {
		switch {
		case line[i] == '\'':
			return string(out), i + 1, nil
		case line[i] == '\\' && i+1 < len(line):
			var n int
			if out, n, err = ansiEscape(out, line[i:]); err != nil {
				return "", 0, fmt.Errorf("%w at column %d", err, column(line, i))
			}
			i += n
		default:
			out = append(out, line[i])
			i++
		}
	}
	return "", 0, fmt.Errorf("unclosed $' at column %d; close it with '", column(line, start))
}

// ansiEscape appends the value of the escape that s, at least two bytes long,
// begins with, and says how many bytes of s it took.
func ansiEscape(out []byte, s string) ([]byte, int, error) {
	if i := strings.IndexByte(`abefnrtv\'"?`, s[1]); i >= 0 {
		return append(out, "\a\b\x1b\f\n\r\t\v\\'\"?"[i]), 2, nil
	}
	switch c := s[1]; c {
	case '0', '1', '2', '3', '4', '5', '6', '7':
		n := digits(s, 1, 3, 8)
		b, err := strconv.ParseUint(s[1:n], 8, 8)
		if err != nil {
			return nil, 0, fmt.Errorf(`escape %s is above \377`, s[:n])
		}
		return append(out, byte(b)), n, nil
	case 'x', 'u', 'U':
		n := digits(s, 2, map[byte]int{'x': 2, 'u': 4, 'U': 8}[c], 16)
		v, err := strconv.ParseUint(s[2:n], 16, 32)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf(`escape \%c without hex digits`, c)
		case c == 'x':
			return append(out, byte(v)), n, nil
		case !utf8.ValidRune(rune(v)):
			return nil, 0, fmt.Errorf("escape %s names no character", s[:n])
		}
		return utf8.AppendRune(out, rune(v)), n, nil
	}
	r, _ := utf8.DecodeRuneInString(s[1:])
	// The rune may be a control character; the message must be safe to print.
	return nil, 0, fmt.Errorf(`unknown escape \%s`, strings.Trim(strconv.QuoteRune(r), "'"))
}

// digits returns the end of the run of at most limit digits at s[from:].
func digits(s string, from, limit, base int) int {
	all := "01234567"
	if base == 16 {
		all = "0123456789abcdefABCDEF"
	}
	end := from
	for end < len(s) && end < from+limit && strings.IndexByte(all, s[end]) >= 0 {
		end++
	}
	return end
}

// quote writes a word so that split gives it back as one word, the plainest
// way that works. A word that could be taken for a flag is quoted, and so is
// the empty one. Whatever does not print is escaped, so that the result is
// one line and harmless on a terminal.
func quote(word string) string {
	switch {
	case !printable(word):
		return ansiQuote(word)
	case isPlain(word):
		return word
	case !strings.Contains(word, `"`):
		return `"` + word + `"`
	case !strings.Contains(word, "'"):
		return "'" + word + "'"
	}
	return ansiQuote(word)
}

func isPlain(word string) bool {
	return word != "" && !strings.Contains("-\"'", word[:1]) &&
		!strings.HasPrefix(word, "$'") && !strings.ContainsAny(word, blanks)
}

func printable(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, notPrinted) < 0
}

func notPrinted(r rune) bool { return !unicode.IsPrint(r) }

func ansiQuote(word string) string {
	b := []byte("$'")
	for word != "" {
		r, n := utf8.DecodeRuneInString(word)
		switch {
		case r == '\\' || r == '\'':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case n == 1 && (r == utf8.RuneError || notPrinted(r)):
			b = fmt.Appendf(b, `\x%02x`, word[0])
		case !notPrinted(r):
			b = append(b, word[:n]...)
		case r <= 0xFFFF:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
		word = word[n:]
	}
	return string(append(b, '\''))
}
