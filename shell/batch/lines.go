package batch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
)

// maxLine is the maximum length of a line of input, in bytes. A server accepts about 1 MB in one
// request, so no useful line is longer. The limit bounds the memory that zksh uses when it reads a
// binary file by mistake.
const maxLine = 4 << 20

// maxRead is the size of the input buffer, in bytes. Even a transaction of all lines in the buffer
// stays far below the size limit of a server.
const maxRead = 256 << 10

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
	return &lineReader{in: bufio.NewReaderSize(r, maxRead)}
}

// buffered returns the input that has been read ahead. The slice is valid until the next call of
// Next.
func (l *lineReader) buffered() []byte {
	read, _ := l.in.Peek(l.in.Buffered()) // cannot fail, because these bytes are buffered
	if l.skipLF {
		read = bytes.TrimPrefix(read, []byte("\n"))
	}
	return read
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
