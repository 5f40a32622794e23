package shell

import (
	"context"
	"errors"
	"fmt"
	"io"

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
	b.run(ctx, readAhead(ctx, r))
	if err := context.Cause(ctx); err != nil && b.status == commands.StatusOK {
		b.fail("", err)
	}
	return s.leave(b.status)
}

func (b *batch) run(ctx context.Context, lines <-chan batchLine) {
	w := newWindow(ctx, b)
	defer w.close()
	for {
		select {
		case l := <-lines:
			if l.err == io.EOF || !b.take(ctx, w, l) {
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
	st := &step{number: l.number, err: l.err}
	if l.err == nil {
		b.s.number = b.s.lines.Add(l.text)
		st.cmd, st.line, st.err = b.s.read(l.text)
	}
	if w.takes(st, len(l.text)) {
		return w.begin(st)
	}
	if !w.drain() {
		return false
	}
	b.line = l.number
	if l.err != nil {
		b.fail("", l.err)
		return !l.last && !b.over(l.err)
	}
	// A session that is known to have expired fails the line that relies on it.
	if err := errors.Join(b.s.showEvents(), b.s.lost()); err != nil {
		b.fail("", err)
		if b.over(err) {
			return false
		}
	}
	err := st.err
	if err == nil {
		err = run(ctx, b.s.env, st.line)
	}
	w.alone(st)
	if errors.Is(err, errQuit) {
		return false
	}
	err = errors.Join(err, b.s.showEvents(), b.s.lost())
	b.fail(st.cmd, err)
	return !b.over(err)
}

// batchLine is a line of a file or pipe, or why there is none.
type batchLine struct {
	text   string
	number int
	err    error
	last   bool // nothing follows the error
}

// readAhead reads one line ahead, so that waiting for the next one can be broken
// off. A read cannot: the goroutine ends after the read that ctx ends in, or with
// the process.
func readAhead(ctx context.Context, r io.Reader) <-chan batchLine {
	out := make(chan batchLine)
	go func() {
		lines := newLineReader(r)
		for {
			var l batchLine
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

// over tells whether a failure ends a batch.
func (b *batch) over(err error) bool {
	switch {
	case err == nil:
		return b.s.cfg.StopAtError && b.status != commands.StatusOK
	case errors.As(err, new(*commands.FinalError)) && !b.s.cfg.GoOn,
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
	b.s.report(cmd, err)
	if b.status == commands.StatusOK {
		b.status = Status(err)
	}
}

func (*batch) mode() commands.Mode { return commands.Batch }

// wording says where the error is: in one line, as compilers do.
func (b *batch) wording(cmd string, err error) []string {
	text := err.Error()
	if cmd != "" {
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

func (*batch) shows(e zkconn.Event) bool    { return !e.Session() }
func (*batch) expired(e expiredError) error { return e }
func (*batch) redoing(string)               {}
func (*batch) closed() error                { return nil }

func (*batch) released(locks string) string {
	return "still locked at the end, and released now: " + locks
}
