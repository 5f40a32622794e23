package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

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

// More reports whether Next can return a line without waiting for input.
func (s *scriptReader) More() bool {
	read := s.in.buffered()
	for open := ""; ; {
		n := bytes.IndexAny(read, "\r\n")
		if n < 0 {
			return false
		}
		if open = syntax.OpenQuote(open, string(read[:n])); open == "" {
			return true
		}
		end := 1
		if bytes.HasPrefix(read[n:], []byte("\r\n")) {
			end = 2
		}
		read = read[n+end:]
	}
}

// A scriptLine is a line of a script, or the error that occurred when it was read.
type scriptLine struct {
	text   string
	number int
	err    error
	last   bool // whether no further line follows, because err is final
	more   bool // whether the next line has already been read
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
			l.more = lines.More()
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
