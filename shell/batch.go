package shell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/batch"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// script is the policy for the lines of a file or pipe. What follows a line may rely
// on it, so that a loss between two lines is an error of the next.
type script struct {
	s      *Shell
	name   string // of the file, for error messages
	line   int    // the number of the one being run; 0 before the first
	upTo   int    // the last one that an error is about, if that is another
	status int    // of the first failure
}

// RunLines runs the lines of a file or pipe, called name in error messages, and
// returns the status of the first that failed.
func (s *Shell) RunLines(ctx context.Context, name string, r io.Reader) int {
	b := &script{s: s, name: name}
	s.begin(b)
	s.verbose(ctx)
	b.run(ctx, batch.ReadAhead(ctx, r))
	if err := context.Cause(ctx); err != nil && b.status == commands.StatusOK {
		b.fail("", err)
	}
	return s.leave(b.status)
}

func (b *script) run(ctx context.Context, lines <-chan batch.Line) {
	w := newWindow(ctx, b)
	defer w.close()
	for ctx.Err() == nil {
		select {
		case l := <-lines:
			if l.Err == io.EOF || !b.take(ctx, w, l) || !l.More && !w.exact.flush() {
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
func (b *script) take(ctx context.Context, w *window, l batch.Line) bool {
	if l.Err == nil && syntax.BlankOrComment(l.Text) {
		return true
	}
	st := &step{number: l.Number, err: l.Err, gathered: b.s.gather()}
	if l.Err == nil {
		b.s.number = b.s.lines.Add(l.Text)
		st.cmd, st.line, st.err = b.s.read(l.Text)
	}
	together := w.takes(st, len(l.Text))
	if !together && !w.drain() {
		return false
	}
	if l.Err != nil {
		b.line = l.Number
		b.s.spoil(l.Number, l.Err)
		err := errors.Join(l.Err, b.answer(st, l.Err))
		b.fail("", err)
		return !l.Last && !b.over(err)
	}
	// A lock or a session that is known to be gone fails the line that relies on it.
	if err := b.trouble(w); err != nil {
		if !w.drain() {
			return false
		}
		b.line = l.Number
		b.s.spoil(l.Number, err)
		b.fail("", err)
		if st.before = err; b.over(err) {
			b.fail("", b.answer(st, nil))
			return false
		}
	}
	if together {
		return w.begin(st)
	}
	b.line = l.Number
	err := st.err
	if err == nil {
		err = batch.Ending(l.Number, b.s.carryOut(ctx, st.gathered.in(b.s.env, st.cmd, l.Number, st.line, st.before), st.cmd, st.line))
	}
	w.alone(st)
	if errors.Is(err, exit.Quit) {
		b.fail(st.cmd, b.answer(st, nil))
		return false
	}
	err = errors.Join(err, b.s.showEvents(), b.s.lost())
	b.s.spoil(l.Number, err)
	err = errors.Join(err, b.answer(st, err))
	b.fail(st.cmd, err)
	return !b.over(err)
}

// answer gives a line that has ended with err its one answer, where it is to have one.
func (b *script) answer(st *step, err error) error {
	return b.s.conclude(st.gathered, st.cmd, st.number, errors.Join(st.before, err))
}

// trouble is what has gone since the line before. With lines under way the end of
// their session shows in their answers.
func (b *script) trouble(w *window) error {
	err := b.s.lost()
	if w.busy() {
		return err
	}
	return errors.Join(b.s.showEvents(), err)
}

// over tells whether a failure ends a batch.
func (b *script) over(err error) bool {
	switch {
	case err == nil:
		return b.s.cfg.StopAtError && b.status != commands.StatusOK
	case errors.As(err, new(*commands.FinalError)) && !b.s.cfg.GoOn, batch.Ends(err),
		errors.Is(err, exit.Interrupted), errors.Is(err, exit.Terminated), errors.Is(err, context.Canceled),
		errors.As(err, new(*exit.WriteError)):
		return true
	}
	return b.s.cfg.StopAtError
}

// fail reports a failure and keeps the first one's status.
func (b *script) fail(cmd string, err error) {
	if err == nil {
		return
	}
	b.s.reportAs(b.wording, cmd, err)
	if b.status == commands.StatusOK {
		b.status = exit.Status(err)
	}
}

func (*script) mode() commands.Mode { return commands.Batch }

// wording says where the error is: in one line, as compilers do.
func (b *script) wording(cmd string, err error) []string {
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

func (b *script) number() int                { return b.line }
func (*script) shows(e zkconn.Event) bool    { return !e.Session() }
func (*script) expired(e expiredError) error { return e }
func (*script) redoing(string)               {}
func (*script) closed() error                { return nil }

func (*script) released(locks string) string {
	return "these locks were still held at the end of the script, so zksh released them: " + locks
}
