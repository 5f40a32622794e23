// Package batch runs the lines of a script.
//
// A goroutine reads the lines, one line ahead (readAhead). Batch.take handles them in order. A
// line that consists of a single request enters the window: its command runs in its own goroutine,
// and the next line starts as soon as the request has been handed to the connection. A Transcript
// buffers the output of the line. The printer, in another goroutine, prints the transcripts in the
// order of the lines. Any other line waits until the window is empty, runs alone, and prints
// directly. With -e, no line after the first failure may take effect, so every line runs alone.
//
// If the connection is lost, wire.Conn.die decides which requests count as sent. Lines without an
// answer are not sent again: the printer joins them into one cutError (cut.go), which says what
// may have happened, and the script continues on the next connection.
//
// A batch uses the shell through the interface Shell, and learns from commands.Effect how a line
// may run. Transactions are also used by the interactive shell. Begin reading at Batch.take.
//
// This package is part of the program zksh and may change at any time.
package batch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// A Shell provides the methods of the shell that a batch uses.
type Shell interface {
	Output
	// Read parses a line, and also returns the name of its command.
	Read(text string) (cmd string, l commands.Line, err error)
	// Report prints the text of an error on standard error.
	Report(text string)
	// ShowEvents prints the events that the function take returns. ShowEvents returns an error if
	// one of the events reports that the session expired, or if a write fails.
	ShowEvents(take func() []zkconn.Event) error
	// Lost returns an error that names each lock that was lost, or could not be acquired in the
	// background, since the last call, or nil.
	Lost() error
	// Buffer makes the shell buffer answers until Flush is called, so that many answers are
	// printed by one write.
	Buffer()
	// Flush prints the buffered answers.
	Flush() error
}

// Options are the settings of a batch.
type Options struct {
	StopAtError bool // -e: stop at the first line that fails
	KeepGoing   bool // -k: continue after a lock is lost or not acquired
	Window      int  // maximum number of lines in flight; values below 2 mean 1
}

// A Batch runs the lines of one script.
type Batch struct {
	shell        Shell
	env          *commands.Env // environment of the lines
	transactions *Transactions
	opts         Options
	name         string              // name of the script in error messages
	line         int                 // number of the current line; 0 before the first
	upTo         int                 // number of the last line if an error concerns several lines, or 0 otherwise
	first        *exit.ReportedError // the first failure, or nil if no line has failed
}

// New returns a Batch for the lines of a script. name is the name of the script in error messages.
func New(shell Shell, env *commands.Env, txns *Transactions, name string, opts Options) *Batch {
	return &Batch{shell: shell, env: env, transactions: txns, opts: opts, name: name}
}

// Line returns the number of the current line, or 0 before the first line.
func (b *Batch) Line() int { return b.line }

// Run runs the lines that it reads from r, and returns the exit status of the first failure.
func (b *Batch) Run(ctx context.Context, r io.Reader) int {
	b.run(ctx, readAhead(ctx, r))
	if err := context.Cause(ctx); err != nil && b.first == nil {
		b.fail("", err)
	}
	return exit.Status(b.failure())
}

func (b *Batch) run(ctx context.Context, lines <-chan scriptLine) {
	w := newWindow(ctx, b)
	defer w.close()
	for ctx.Err() == nil {
		select {
		case l := <-lines:
			if l.err == io.EOF || !b.take(ctx, w, l) {
				return
			}
		case <-w.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// take runs a line, or starts it in the window, and reports whether the batch continues.
func (b *Batch) take(ctx context.Context, w *window, l scriptLine) bool {
	if l.err == nil && syntax.BlankOrComment(l.text) {
		return true
	}
	p := &pendingLine{number: l.number, err: l.err}
	if l.err == nil {
		p.cmd, p.line, p.err = b.shell.Read(l.text)
	}
	p.out = NewTranscript(b.env, p.cmd, l.number)
	pipelined := w.accepts(p, len(l.text))
	if !pipelined && !w.drain() {
		return false
	}
	if l.err != nil {
		b.line = l.number
		b.transactions.markFailed(l.number, l.err)
		err := errors.Join(l.err, b.conclude(p, l.err))
		b.fail("", err)
		return false
	}
	// If a lock or the session was lost, or a lock could not be acquired in the background, report that
	// as a failure of this line, because the line may depend on it.
	if err := b.losses(w); err != nil {
		if !w.drain() {
			return false
		}
		b.line = l.number
		b.transactions.markFailed(l.number, err)
		b.fail("", err)
		if p.priorErr = err; b.ends(err) {
			b.fail("", b.conclude(p, nil))
			return false
		}
	}
	if pipelined {
		return w.begin(p)
	}
	w.noteRunAlone(p)
	return b.runAlone(ctx, p)
}

// runAlone runs a line while no other line is in flight, and reports whether the batch continues.
func (b *Batch) runAlone(ctx context.Context, p *pendingLine) bool {
	b.line = p.number
	err := p.err
	if err == nil {
		err = asEndedError(p.number, b.transactions.Run(ctx, p.out.Env(b.env, p.line, p.priorErr), p.cmd, p.line))
	}
	if errors.Is(err, exit.ErrQuit) {
		b.fail(p.cmd, b.conclude(p, nil))
		return false
	}
	err = errors.Join(err, b.showEvents())
	lost := b.shell.Lost()
	b.transactions.markFailed(p.number, errors.Join(err, lost))
	err = errors.Join(err, b.conclude(p, errors.Join(err, lost)))
	b.fail(p.cmd, err)
	b.fail("", lost)
	return !b.ends(errors.Join(err, lost))
}

// conclude prints the JSON answer of a line, unless it has been printed. err is the error of the
// line, or nil.
func (b *Batch) conclude(p *pendingLine, err error) error {
	return p.out.Conclude(b.shell, errors.Join(p.priorErr, err))
}

// Conclude prints a JSON answer for err, an error that occurred after the last line. It prints nothing
// if err is nil, or if the lines have no JSON answers.
func (b *Batch) Conclude(err error) error {
	if err == nil || exit.Silent(err) {
		return nil
	}
	return NewTranscript(b.env, "", 0).Conclude(b.shell, err)
}

func (b *Batch) showEvents() error { return b.shell.ShowEvents(b.env.Session.Events) }

// losses returns an error if a lock or the session was lost, or a lock could not be acquired in the
// background, since the previous line. It does not check the session while lines are in flight, because
// their answers then report that the session has expired.
func (b *Batch) losses(w *window) error {
	err := b.shell.Lost()
	if w.busy() {
		return err
	}
	return errors.Join(b.showEvents(), err)
}

// ends reports whether the batch ends after a line that returned err, which may be nil.
func (b *Batch) ends(err error) bool {
	switch {
	case err == nil:
		return b.opts.StopAtError && b.first != nil
	case errors.As(err, new(*commands.FinalError)) && !b.opts.KeepGoing, isEndedError(err),
		errors.Is(err, exit.ErrInterrupted), errors.Is(err, exit.ErrTerminated), errors.Is(err, context.Canceled),
		errors.As(err, new(*exit.WriteError)):
		return true
	}
	return b.opts.StopAtError
}

// failure returns the first failure, or nil if no line has failed.
func (b *Batch) failure() error {
	if b.first == nil {
		return nil
	}
	return b.first
}

// fail prints the error of the command cmd, and records it if this is the first failure.
func (b *Batch) fail(cmd string, err error) {
	if err == nil {
		return
	}
	text := b.Wording(cmd, err)
	if !exit.Silent(err) {
		b.shell.Report(text)
	}
	if b.first != nil {
		return
	}
	// the line has run the file in which the first failure is
	if inner, is := errors.AsType[*exit.ReportedError](err); is {
		text = inner.Text
	}
	status := &commands.StatusError{Status: exit.Status(err), Code: exit.Code(err)}
	b.first = &exit.ReportedError{Text: text, Status: status}
}

// Wording returns the text of an error on one line, in the style of a compiler's message: script,
// line number, command and error. cmd is empty if the error belongs to no command.
func (b *Batch) Wording(cmd string, err error) string {
	text := err.Error()
	if cmd != "" {
		if !commands.Printable(cmd) { // the name of an unknown command may contain any character
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
	return text
}
