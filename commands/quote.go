package commands

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/internal/render"
)

// Blanks are the characters that separate words: those that \s matches in zkCli. Other Unicode
// spaces can be part of a znode's name.
const Blanks = " \t\n\v\f\r"

// Quote writes a word so that the shell reads it as one word, with as little quoting as possible.
// It quotes an empty word, and a word that looks like a flag. It escapes characters that are not
// printable, so that the result is one line and safe on a terminal.
func Quote(word string) string {
	switch {
	case !Printable(word):
		return Escape(word)
	case word == "|" || word == ">" || word == ">>": // the shell would read a pipe or a redirection
		return `"` + word + `"`
	case word != "" && !strings.Contains("-\"'", word[:1]) && !strings.HasPrefix(word, "$'") && !strings.ContainsAny(word, Blanks):
		return word
	case !strings.Contains(word, `"`):
		return `"` + word + `"`
	case !strings.Contains(word, "'"):
		return "'" + word + "'"
	}
	return Escape(word)
}

// Printable reports whether a word can be printed without escapes.
func Printable(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, notPrinted) < 0
}

func notPrinted(r rune) bool { return !unicode.IsPrint(r) || render.Hidden(r) }

// Escape writes a word in the form $'…'.
func Escape(word string) string {
	b := []byte("$'")
	for word != "" {
		r, n := utf8.DecodeRuneInString(word)
		switch i := strings.IndexRune("\n\r\t\\'", r); {
		case i >= 0:
			b = append(b, '\\', `nrt\'`[i])
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
