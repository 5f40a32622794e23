package batch

import (
	"bufio"
	"context"
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
// line breaks in quotes, so that the result is a single line. Every error is final: it is an
// unclosedError, or an error of lineReader.Next.
func (s *scriptReader) Next() (line string, number int, err error) {
	line, number, err = s.in.Next()
	open := syntax.OpenQuote("", line)
	if err != nil || open == "" {
		return line, number, err
	}
	text := []byte(line)
	for to := number; open != ""; to++ {
		next, at, err := s.in.Next()
		switch {
		case err == io.EOF && to == number: // the caller reports the open quote when it splits the line
			return line, number, nil
		case err == io.EOF:
			_, unclosed := syntax.Split(string(text))
			return "", number, &unclosedError{unclosed, number, to}
		case err != nil:
			return "", at, err
		case len(text)+1+len(next) > maxLine:
			s.in.err = errLongLine
			return "", number, errLongLine
		}
		open = syntax.OpenQuote(open, next)
		text = append(append(text, '\n'), next...)
	}
	return syntax.OnOneLine(string(text)), number, nil
}

// A scriptLine is a line of a script, or the error that occurred when it was read. No line follows
// after an error.
type scriptLine struct {
	text   string
	number int
	err    error
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
			select {
			case out <- l:
			case <-ctx.Done():
				return
			}
			if l.err != nil {
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

// errLongLine is the error of a line that is longer than maxLine. It ends the script: zksh does not
// keep track of the quotes in such a line, so a later line could be data.
var errLongLine = &commands.UsageError{
	Problem: fmt.Sprintf("the line is longer than %d MiB; it and all later lines were not run", maxLine>>20),
}

// A lineReader reads lines that end in \n, \r\n or a single \r, like the Java reader in zkCli.
type lineReader struct {
	in     *bufio.Reader
	number int   // number of the last line
	skipLF bool  // whether the last line ended in \r, so that a \n directly after it belongs to its end
	err    error // error that ended the input, or nil
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReader(r)}
}

// Next returns the next line without its line end, and its number, counted from 1. It returns as
// soon as the line end has arrived, so that commands from a pipe run at once. The last line may
// lack a line end.
//
// Every error is final. If Next returns an error, it returns no part of the line.
func (l *lineReader) Next() (line string, number int, err error) {
	if l.err != nil {
		return "", l.number, l.err
	}
	l.number++
	line = l.read()
	if l.err != nil && l.err != io.EOF {
		return "", l.number, l.err
	}
	if l.number == 1 {
		line = strings.TrimPrefix(line, "\uFEFF")
	}
	if l.err != nil && line == "" {
		return "", l.number, l.err
	}
	return line, l.number, nil
}

// read reads to the end of a line. It stores an error in l.err.
func (l *lineReader) read() string {
	var text []byte
	for {
		var c byte
		if c, l.err = l.in.ReadByte(); l.err != nil {
			return string(text)
		}
		skip := l.skipLF && c == '\n'
		l.skipLF = c == '\r'
		switch {
		case skip:
		case c == '\n' || c == '\r':
			return string(text)
		case len(text) == maxLine:
			l.err = errLongLine
			return ""
		default:
			text = append(text, c)
		}
	}
}
