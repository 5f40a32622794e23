package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
)

// scriptReader reads the lines of a script. A line that leaves a quote open goes on with
// the next one, as at the prompt: the lines in between are data, and never commands.
type scriptReader struct {
	in *lineReader
}

func newScriptReader(r io.Reader) *scriptReader { return &scriptReader{newLineReader(r)} }

// unclosedError is the error of a quote that is open at the end of a script.
type unclosedError struct {
	err      error // of the words of all these lines together
	from, to int   // the lines
}

func (e *unclosedError) Error() string {
	return fmt.Sprintf("%s; lines %d-%d were not run", e.err, e.from, e.to)
}

// Unwrap returns a usage error, for the exit status.
func (e *unclosedError) Unwrap() error { return &commands.UsageError{Problem: e.err.Error()} }

// Next returns the next line and the number of the first line of input that it comes
// from. Line breaks in quotes are escaped, so that the result is one line. Errors are those
// of lineReader, and unclosedError, behind which there is only io.EOF.
func (s *scriptReader) Next() (line string, number int, err error) {
	line, number, err = s.in.Next()
	if err != nil && !errors.Is(err, errLongLine) {
		return "", number, err
	}
	open := s.openAfter("", line, err)
	if open == "" {
		return line, number, err
	}
	text := []byte(line)
	for to := number; open != ""; to++ {
		s.in.open = open
		next, at, nextErr := s.in.Next()
		s.in.open = ""
		switch {
		case nextErr == io.EOF && err != nil:
			return "", number, err
		case nextErr == io.EOF && to == number: // whoever reads its words finds the error
			return string(text), number, nil
		case nextErr == io.EOF:
			_, unclosed := split(string(text))
			return "", number, &unclosedError{unclosed, number, to}
		case nextErr != nil && !errors.Is(nextErr, errLongLine):
			return "", at, nextErr
		}
		open = s.openAfter(open, next, nextErr)
		if err == nil && (nextErr != nil || len(text)+1+len(next) > maxLine) {
			text, err = nil, errLongLine
		}
		if err == nil {
			text = append(append(text, '\n'), next...)
		}
	}
	if err != nil {
		return "", number, err
	}
	return onOneLine(string(text)), number, nil
}

// openAfter returns the quote that is open at the end of a line, which begins in the
// quote that was open before it. Of a line that is too long the reader has kept track.
func (s *scriptReader) openAfter(before, line string, err error) string {
	if err != nil {
		return s.in.quotes.open
	}
	return openQuote(before, line)
}

// More reports whether Next has a line without waiting for input.
func (s *scriptReader) More() bool {
	read := s.in.buffered()
	for open := ""; ; {
		n := bytes.IndexAny(read, "\r\n")
		if n < 0 {
			return false
		}
		if open = openQuote(open, string(read[:n])); open == "" {
			return true
		}
		end := 1
		if bytes.HasPrefix(read[n:], []byte("\r\n")) {
			end = 2
		}
		read = read[n+end:]
	}
}

// quoteScanner follows the quotes of a line that is too long to be kept, byte by byte. It
// finds the quote that openQuote finds.
type quoteScanner struct {
	open    string // the quote that is open: ", ' or $'; empty: none
	escaped bool   // in $'…', behind a backslash
	begun   bool   // something other than a blank has come
	word    []byte // the first bytes of the plain word that is being read
	clings  bool   // a closing quote stands right before that word
	inert   bool   // what follows has no quotes of ours: behind #, | or >
}

// scanQuotes returns a scanner for a line that begins in a quote, or in none.
func scanQuotes(open string) quoteScanner { return quoteScanner{open: open, begun: open != ""} }

// add reads the next byte of the line.
func (q *quoteScanner) add(c byte) {
	blank := strings.IndexByte(commands.Blanks, c) >= 0
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
	case blank:
		q.inert = !q.clings && isOutlet(commands.Word{Text: string(q.word)})
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
	q.begun = q.begun || !blank
}
