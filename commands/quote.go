package commands

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zksh/zksh/internal/render"
)

// Blanks contains the characters that separate the words of a command line. zkCli uses the same
// characters: those that \s matches in Java. Other Unicode spaces can be part of a znode's name.
const Blanks = " \t\n\v\f\r"

// Quote returns a word in the form in which the shell reads it as one word. It adds quotes only if
// they are needed: for example, to an empty word or a word that looks like a flag. It escapes
// unprintable characters, so that the result fits on one line and is safe on a terminal.
func Quote(word string) string {
	switch {
	case !Printable(word):
		return Escape(word)
	case word == "|" || word == ">" || word == ">>": // the shell would interpret the word as a pipe or a redirection
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

// Printable reports whether a word can be printed on a terminal without escapes.
func Printable(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, notPrinted) < 0
}

func notPrinted(r rune) bool { return !unicode.IsPrint(r) || render.Hidden(r) }

// Escape quotes a word in the form $'…', in which unprintable characters are escaped.
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
