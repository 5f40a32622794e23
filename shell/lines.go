package shell

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line of input. A server takes about 1 MB in one request,
// so nothing useful is longer, and a binary file fed by mistake stays small.
const maxLine = 4 << 20

// lineReader reads lines that end in \n, \r\n or a lone \r, as the Java
// reader under zkCli does.
type lineReader struct {
	in     *bufio.Reader
	number int
	skipLF bool // the last line ended in \r; a \n right after it belongs to it
	err    error
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReader(r)}
}

// Next returns the next line without its end, and its number from 1. It
// returns as soon as the end of the line has arrived, so that commands coming
// through a pipe run at once. The last line may lack its end.
//
// An error is final: what follows an overlong line is the rest of that line,
// not a command, and a line cut short by a failed read must not run.
func (l *lineReader) Next() (line string, number int, err error) {
	if l.err != nil {
		return "", l.number, l.err
	}
	l.number++
	line, l.err = l.read()
	if l.number == 1 {
		line = strings.TrimPrefix(line, "\uFEFF")
	}
	if l.err == io.EOF && line != "" {
		return line, l.number, nil
	}
	if l.err != nil {
		return "", l.number, l.err
	}
	return line, l.number, nil
}

func (l *lineReader) read() (string, error) {
	var line []byte
	for {
		c, err := l.in.ReadByte()
		if err != nil {
			return string(line), err
		}
		skip := l.skipLF && c == '\n'
		l.skipLF = c == '\r'
		switch {
		case skip:
		case c == '\n' || c == '\r':
			return string(line), nil
		case len(line) == maxLine:
			return "", fmt.Errorf("line %d is longer than %d MiB", l.number, maxLine>>20)
		default:
			line = append(line, c)
		}
	}
}
