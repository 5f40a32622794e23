package batch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
)

// maxLine bounds a line of input. A server takes about 1 MB in one request,
// so nothing useful is longer, and a binary file fed by mistake stays small.
const maxLine = 4 << 20

// maxRead is the number of bytes that are read ahead. Together, the lines in them make no
// request that is near a server's limit.
const maxRead = 256 << 10

// errLongLine is the error of a line that is longer than maxLine. It was read to its
// end, and the next line can be read.
var errLongLine = &commands.UsageError{Problem: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20)}

// lineReader reads lines that end in \n, \r\n or a lone \r, as the Java
// reader under zkCli does.
type lineReader struct {
	in     *bufio.Reader
	number int
	skipLF bool         // the last line ended in \r; a \n right after it belongs to it
	open   string       // the quote that is open where the next line begins
	quotes quoteScanner // of the last line, if that was too long
	err    error
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(r, maxRead)}
}

// buffered returns what has been read of the lines to come. It is valid until Next.
func (l *lineReader) buffered() []byte {
	read, _ := l.in.Peek(l.in.Buffered()) // cannot fail: they are buffered
	if l.skipLF {
		read = bytes.TrimPrefix(read, []byte("\n"))
	}
	return read
}

// Next returns the next line without its end, and its number from 1. It
// returns as soon as the end of the line has arrived, so that commands coming
// through a pipe run at once. The last line may lack its end.
//
// Every error but errLongLine is final. No part of a line that has one is a
// command: neither the rest of a line that is too long, nor a line cut short by a
// failed read.
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

// read reads to the end of a line, which it keeps unless it is too long. An error
// goes to l.err.
func (l *lineReader) read() (line string, long bool) {
	var kept []byte
	for {
		var c byte
		if c, l.err = l.in.ReadByte(); l.err != nil {
			return string(kept), long
		}
		skip := l.skipLF && c == '\n'
		l.skipLF = c == '\r'
		switch {
		case skip:
		case c == '\n' || c == '\r':
			return string(kept), long
		case len(kept) == maxLine:
			l.quotes, long = scanQuotes(l.open), true
			for _, c := range kept {
				l.quotes.add(c)
			}
			l.quotes.add(c)
			kept = nil
		case long:
			l.quotes.add(c)
		default:
			kept = append(kept, c)
		}
	}
}
