package batch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/syntax"
)

// A scriptReader reads the lines of a script. A line with an open quote at its end continues on
// the next line, as at the prompt. Text inside the quote is data and never runs as a command.
type scriptReader struct {
	in *lineReader
}

func newScriptReader(r io.Reader) *scriptReader { return &scriptReader{newLineReader(r)} }

// An unclosedError reports a quote that is still open at the end of a script.
type unclosedError struct {
	err      error // error of splitting the lines into words
	from, to int   // numbers of the first and the last line of input that the quote spans
}

func (e *unclosedError) Error() string {
	return fmt.Sprintf("%s; lines %d-%d were not run", e.err, e.from, e.to)
}

// Unwrap returns a usage error, which determines the exit status.
func (e *unclosedError) Unwrap() error { return &commands.UsageError{Problem: e.err.Error()} }

// Next returns the next line of the script and the number of its first line of input. It escapes
// line breaks in quotes, so that the result is a single line. Its errors are those of
// lineReader.Next and unclosedError. After an unclosedError, Next returns io.EOF.
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
		case nextErr == io.EOF && to == number: // the caller reports the open quote when it splits the line
			return string(text), number, nil
		case nextErr == io.EOF:
			_, unclosed := syntax.Split(string(text))
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
	return syntax.OnOneLine(string(text)), number, nil
}

// openAfter returns the quote that is open at the end of a line. before is the quote that is open
// at the beginning of the line. If the line was too long, err is set, and openAfter uses the result
// of the lineReader's scan instead.
func (s *scriptReader) openAfter(before, line string, err error) string {
	if err != nil {
		return s.in.quotes.open
	}
	return syntax.OpenQuote(before, line)
}

// A scriptLine is a line of a script, or the error that occurred when it was read.
type scriptLine struct {
	text   string
	number int
	err    error
	last   bool // whether no further line follows, because err is final
}

// readAhead reads the lines of a script in a goroutine, one line ahead, so that waiting for the
// next line can be interrupted. A read itself cannot be interrupted. After the end of ctx, the
// goroutine therefore ends only when the current read returns, or when the process exits.
func readAhead(ctx context.Context, r io.Reader) <-chan scriptLine {
	out := make(chan scriptLine)
	go func() {
		lines := newScriptReader(r)
		for {
			var l scriptLine
			l.text, l.number, l.err = lines.Next()
			l.last = l.err != nil && !errors.Is(l.err, errLongLine)
			select {
			case out <- l:
			case <-ctx.Done():
				return
			}
			if l.last {
				return
			}
		}
	}()
	return out
}

// maxLine is the maximum length of a line of input, in bytes. A server accepts about 1 MB in one
// request, so no useful line is longer. The limit bounds the memory that zksh uses when it reads a
// binary file by mistake.
const maxLine = 4 << 20

// errLongLine is the error of a line that is longer than maxLine. The line has been read to its
// end, so the next line can be read.
var errLongLine = &commands.UsageError{Problem: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20)}

// A lineReader reads lines that end in \n, \r\n or a single \r, like the Java reader in zkCli.
type lineReader struct {
	in     *bufio.Reader
	number int          // number of the last line
	skipLF bool         // whether the last line ended in \r, so that a \n directly after it belongs to its end
	open   string       // the quote that is open at the beginning of the next line, or empty
	quotes quoteScanner // state of the quotes after the last line, if that line was too long
	err    error        // error that ended the input, or nil
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReader(r)}
}

// Next returns the next line without its line end, and its number, counted from 1. It returns as
// soon as the line end has arrived, so that commands from a pipe run at once. The last line may
// lack a line end.
//
// Every error except errLongLine is final. If Next returns an error, it returns no part of the
// line: neither the rest of a line that is too long, nor the beginning of a line whose end could
// not be read.
func (l *lineReader) Next() (line string, number int, err error) {
	if l.err != nil {
		return "", l.number, l.err
	}
	l.number++
	line, long := l.read()
	switch {
	case l.err != nil && l.err != io.EOF:
		return "", l.number, l.err
	case long:
		return "", l.number, errLongLine
	}
	if l.number == 1 {
		line = strings.TrimPrefix(line, "\uFEFF")
	}
	if l.err != nil && line == "" {
		return "", l.number, l.err
	}
	return line, l.number, nil
}

// read reads to the end of a line. If the line is too long, read returns no text, but still keeps
// track of the quotes in it. Read errors are stored in l.err.
func (l *lineReader) read() (line string, long bool) {
	var text []byte
	for {
		var c byte
		if c, l.err = l.in.ReadByte(); l.err != nil {
			return string(text), long
		}
		skip := l.skipLF && c == '\n'
		l.skipLF = c == '\r'
		switch {
		case skip:
		case c == '\n' || c == '\r':
			return string(text), long
		case len(text) == maxLine:
			l.quotes, long = scanQuotes(l.open), true
			for _, c := range text {
				l.quotes.add(c)
			}
			l.quotes.add(c)
			text = nil
		case long:
			l.quotes.add(c)
		default:
			text = append(text, c)
		}
	}
}

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
