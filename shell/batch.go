package shell

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
)

// batch is the policy for the lines of a file or pipe. What follows a line may rely
// on it, so that a loss between two lines is an error of the next.
type batch struct {
	s      *Shell
	name   string // of the file, for error messages
	line   int    // the number of the one being run; 0 before the first
	upTo   int    // the last one that an error is about, if that is another
	status int    // of the first failure
}

// RunLines runs the lines of a file or pipe, called name in error messages, and
// returns the status of the first that failed.
func (s *Shell) RunLines(ctx context.Context, name string, r io.Reader) int {
	b := &batch{s: s, name: name}
	s.begin(b)
	s.verbose(ctx)
	b.run(ctx, readAhead(ctx, r))
	if err := context.Cause(ctx); err != nil && b.status == commands.StatusOK {
		b.fail("", err)
	}
	return s.leave(b.status)
}

func (b *batch) run(ctx context.Context, lines <-chan batchLine) {
	w := newWindow(ctx, b)
	defer w.close()
	for ctx.Err() == nil {
		select {
		case l := <-lines:
			if l.err == io.EOF || !b.take(ctx, w, l) || !l.more && !w.exact.flush() {
				return
			}
		case <-w.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// take runs a line, or begins it in the window, and tells whether the batch goes on.
func (b *batch) take(ctx context.Context, w *window, l batchLine) bool {
	if l.err == nil && blankOrComment(l.text) {
		return true
	}
	st := &step{number: l.number, err: l.err, gathered: b.s.gather()}
	if l.err == nil {
		b.s.number = b.s.lines.Add(l.text)
		st.cmd, st.line, st.err = b.s.read(l.text)
	}
	together := w.takes(st, len(l.text))
	if !together && !w.drain() {
		return false
	}
	if l.err != nil {
		b.line = l.number
		b.s.spoil(l.number, l.err)
		err := errors.Join(l.err, b.answer(st, l.err))
		b.fail("", err)
		return !l.last && !b.over(err)
	}
	// A lock or a session that is known to be gone fails the line that relies on it.
	if err := b.trouble(w); err != nil {
		if !w.drain() {
			return false
		}
		b.line = l.number
		b.s.spoil(l.number, err)
		b.fail("", err)
		if st.before = err; b.over(err) {
			b.fail("", b.answer(st, nil))
			return false
		}
	}
	if together {
		return w.begin(st)
	}
	b.line = l.number
	err := st.err
	if err == nil {
		err = ending(l.number, b.s.carryOut(ctx, st.gathered.in(b.s.env, st.cmd, l.number, st.line, st.before), st.cmd, st.line))
	}
	w.alone(st)
	if errors.Is(err, errQuit) {
		b.fail(st.cmd, b.answer(st, nil))
		return false
	}
	err = errors.Join(err, b.s.showEvents(), b.s.lost())
	b.s.spoil(l.number, err)
	err = errors.Join(err, b.answer(st, err))
	b.fail(st.cmd, err)
	return !b.over(err)
}

// answer gives a line that has ended with err its one answer, where it is to have one.
func (b *batch) answer(st *step, err error) error {
	return b.s.conclude(st.gathered, st.cmd, st.number, errors.Join(st.before, err))
}

// trouble is what has gone since the line before. With lines under way the end of
// their session shows in their answers.
func (b *batch) trouble(w *window) error {
	err := b.s.lost()
	if w.busy() {
		return err
	}
	return errors.Join(b.s.showEvents(), err)
}

// batchLine is a line of a file or pipe, or why there is none.
type batchLine struct {
	text   string
	number int
	err    error
	last   bool // nothing follows the error
	more   bool // another line has been read
}

// readAhead reads one line ahead, so that waiting for the next one can be broken
// off. A read cannot: the goroutine ends after the read that ctx ends in, or with
// the process.
func readAhead(ctx context.Context, r io.Reader) <-chan batchLine {
	out := make(chan batchLine)
	go func() {
		lines := newScriptReader(r)
		for {
			var l batchLine
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

// over tells whether a failure ends a batch.
func (b *batch) over(err error) bool {
	switch {
	case err == nil:
		return b.s.cfg.StopAtError && b.status != commands.StatusOK
	case errors.As(err, new(*commands.FinalError)) && !b.s.cfg.GoOn, ends(err),
		errors.Is(err, errInterrupted), errors.Is(err, errTerminated), errors.Is(err, context.Canceled),
		errors.As(err, new(*writeError)):
		return true
	}
	return b.s.cfg.StopAtError
}

// fail reports a failure and keeps the first one's status.
func (b *batch) fail(cmd string, err error) {
	if err == nil {
		return
	}
	b.s.reportAs(b.wording, cmd, err)
	if b.status == commands.StatusOK {
		b.status = Status(err)
	}
}

func (*batch) mode() commands.Mode { return commands.Batch }

// wording says where the error is: in one line, as compilers do.
func (b *batch) wording(cmd string, err error) []string {
	text := err.Error()
	if cmd != "" {
		if !commands.Printable(cmd) { // a word that is no command
			cmd = commands.Escape(cmd)
		}
		text = cmd + ": " + text
	}
	switch {
	case b.upTo > b.line:
		text = fmt.Sprintf("%s:%d-%d: %s", b.name, b.line, b.upTo, text)
	case b.line > 0:
		text = fmt.Sprintf("%s:%d: %s", b.name, b.line, text)
	}
	return []string{text}
}

func (b *batch) number() int                { return b.line }
func (*batch) shows(e zkconn.Event) bool    { return !e.Session() }
func (*batch) expired(e expiredError) error { return e }
func (*batch) redoing(string)               {}
func (*batch) closed() error                { return nil }

func (*batch) released(locks string) string {
	return "these locks were still held at the end of the script, so zksh released them: " + locks
}

// maxLine bounds a line of input. A server takes about 1 MB in one request,
// so nothing useful is longer, and a binary file fed by mistake stays small.
const maxLine = 4 << 20

// maxRead is how much of the lines to come is read at a time: together they make no
// request that is near a server's limit.
const maxRead = 256 << 10

// errLongLine is the error of a line that is longer than that. It was read to its
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
	read, _ := l.in.Peek(l.in.Buffered()) // as much cannot fail
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

// read reads to the end of a line, and keeps what is not too long of it. An error
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
