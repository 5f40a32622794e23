package batch

import (
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/syntax"
)

// quoteScanner follows the quotes of a line that is too long to be kept, byte by byte. It
// finds the quote that syntax.OpenQuote finds.
type quoteScanner struct {
	open    string // the quote that is open: ", ' or $'; empty: none
	escaped bool   // in $'…', after a backslash
	begun   bool   // something other than a space has come
	word    []byte // the first bytes of the plain word that is being read
	clings  bool   // a closing quote stands right before that word
	inert   bool   // what follows has no quotes of ours: after #, | or >
}

// scanQuotes returns a scanner for a line that begins in a quote, or in none.
func scanQuotes(open string) quoteScanner { return quoteScanner{open: open, begun: open != ""} }

// add reads the next byte of the line.
func (q *quoteScanner) add(c byte) {
	space := strings.IndexByte(commands.Blanks, c) >= 0
	switch {
	case q.inert:
	case q.escaped:
		q.escaped = false
	case q.open == "$'" && c == '\\':
		q.escaped = true
	case q.open != "":
		if c == q.open[len(q.open)-1] {
			q.open, q.clings = "", true
		}
	case space:
		q.inert = !q.clings && syntax.IsRedirection(commands.Word{Text: string(q.word)})
		q.word, q.clings = q.word[:0], false
	case len(q.word) == 0 && (c == '"' || c == '\''):
		q.open = string(c)
	case string(q.word) == "$" && c == '\'':
		q.open, q.word = "$'", q.word[:0]
	case !q.begun && c == '#':
		q.inert = true
	case len(q.word) < len(">>")+1: // the rest makes no difference
		q.word = append(q.word, c)
	}
	q.begun = q.begun || !space
}
