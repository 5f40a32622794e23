package batch

import (
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/syntax"
)

// A quoteScanner determines the quote that is open at the end of a line. It scans the line byte by
// byte and does not store it, so it can be used for lines that are too long to store. Its result
// is the same as that of syntax.OpenQuote.
type quoteScanner struct {
	open       string // the open quote (", ' or $'), or empty if none is open
	escaped    bool   // whether the last byte was a backslash inside $'…'
	hasText    bool   // whether the line contains a byte other than a space so far
	word       []byte // the first bytes of the current unquoted word
	afterQuote bool   // whether a closing quote directly precedes that word
	ignoring   bool   // whether to ignore quotes, because the rest of the line follows #, | or >
}

// scanQuotes returns a scanner for a line that begins inside the quote open, or outside quotes if
// open is empty.
func scanQuotes(open string) quoteScanner { return quoteScanner{open: open, hasText: open != ""} }

// add processes the next byte of the line.
func (q *quoteScanner) add(c byte) {
	space := strings.IndexByte(commands.Blanks, c) >= 0
	switch {
	case q.ignoring:
	case q.escaped:
		q.escaped = false
	case q.open == "$'" && c == '\\':
		q.escaped = true
	case q.open != "":
		if c == q.open[len(q.open)-1] {
			q.open, q.afterQuote = "", true
		}
	case space:
		q.ignoring = !q.afterQuote && syntax.IsRedirection(commands.Word{Text: string(q.word)})
		q.word, q.afterQuote = q.word[:0], false
	case len(q.word) == 0 && (c == '"' || c == '\''):
		q.open = string(c)
	case string(q.word) == "$" && c == '\'':
		q.open, q.word = "$'", q.word[:0]
	case !q.hasText && c == '#':
		q.ignoring = true
	case len(q.word) < len(">>")+1: // a longer word cannot be a redirection
		q.word = append(q.word, c)
	}
	q.hasText = q.hasText || !space
}
