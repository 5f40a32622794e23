// Package batch runs the lines of a script.
//
// A goroutine reads the lines, one ahead (readAhead). The batch takes them in order. A line
// that is a single request goes into the window: its command runs in a goroutine of its own,
// and the next line starts as soon as the request has been handed to the connection. Its
// output is kept in a Transcript, and the printer, one more goroutine, plays the transcripts
// in the order of the lines. Every other line waits until the window is empty, runs alone
// and prints directly. With -e, single writes that have already been read go together as one
// transaction (group) instead, and nothing after the first failure happens.
//
// A batch knows of the shell only what the interface Shell says, and of a line only its
// commands.Effect.
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

// Shell is the part of a shell that a batch uses.
type Shell interface {
	Output
	// Read splits a line, and returns the name of its command and the command's line.
	Read(text string) (cmd string, l commands.Line, err error)
	// Report prints the text of an error.
	Report(text string)
	// ShowEvents prints the events that take returns. Its error says that the session expired.
	ShowEvents(take func() []zkconn.Event) error
	// Lost returns an error that names each lock that was lost since the last call.
	Lost() error
	// Buffer makes answers wait until Flush, so that many go out in one write.
	Buffer()
	// Flush prints the answers that wait.
	Flush() error
}

// Options are the settings of a batch.
type Options struct {
	StopAtError bool // -e
	KeepGoing   bool // -k: also after the loss of a lock that the lines rely on
	Window      int  // maximum number of lines in flight; below 2: one
}

// Batch runs the lines of one script.
type Batch struct {
	shell  Shell
	env    *commands.Env // of the lines
	txns   *Transactions
	opts   Options
	name   string // of the script, for error messages
	line   int    // number of the current line; 0 before the first
	upTo   int    // number of the last line that an error is about, if that is another one
	status int    // of the first failure
}

// New returns a batch for the script that error messages call name.
func New(shell Shell, env *commands.Env, txns *Transactions, name string, opts Options) *Batch {
	return &Batch{shell: shell, env: env, txns: txns, opts: opts, name: name}
}

// Line returns the number of the current line; 0 before the first.
func (b *Batch) Line() int { return b.line }

// Run runs the lines, and returns the exit status of the first failure.
func (b *Batch) Run(ctx context.Context, r io.Reader) int {
	b.run(ctx, readAhead(ctx, r))
	if err := context.Cause(ctx); err != nil && b.status == commands.StatusOK {
		b.fail("", err)
	}
	return b.status
}

func (b *Batch) run(ctx context.Context, lines <-chan scriptLine) {
	w := newWindow(ctx, b)
	defer w.close()
	for ctx.Err() == nil {
		select {
		case l := <-lines:
			if l.err == io.EOF || !b.take(ctx, w, l) || !l.more && !w.group.flush() {
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
	together := w.accepts(p, len(l.text))
	if !together && !w.drain() {
		return false
	}
	if l.err != nil {
		b.line = l.number
		b.txns.spoil(l.number, l.err)
		err := errors.Join(l.err, b.conclude(p, l.err))
		b.fail("", err)
		return !l.last && !b.over(err)
	}
	// A lock or a session that is known to be gone fails the line that relies on it.
	if err := b.trouble(w); err != nil {
		if !w.drain() {
			return false
		}
		b.line = l.number
		b.txns.spoil(l.number, err)
		b.fail("", err)
		if p.before = err; b.over(err) {
			b.fail("", b.conclude(p, nil))
			return false
		}
	}
	if together {
		return w.begin(p)
	}
	w.ranAlone(p)
	return b.runAlone(ctx, p)
}

// runAlone runs a line while no other is in flight, and reports whether the batch continues.
func (b *Batch) runAlone(ctx context.Context, p *pendingLine) bool {
	b.line = p.number
	err := p.err
	if err == nil {
		err = ending(p.number, b.txns.Run(ctx, p.out.Env(b.env, p.line, p.before), p.cmd, p.line))
	}
	if errors.Is(err, exit.ErrQuit) {
		b.fail(p.cmd, b.conclude(p, nil))
		return false
	}
	err = errors.Join(err, b.showEvents(), b.shell.Lost())
	b.txns.spoil(p.number, err)
	err = errors.Join(err, b.conclude(p, err))
	b.fail(p.cmd, err)
	return !b.over(err)
}

// conclude prints the one JSON answer of a line that has ended with err.
func (b *Batch) conclude(p *pendingLine, err error) error {
	return p.out.Conclude(b.shell, errors.Join(p.before, err))
}

func (b *Batch) showEvents() error { return b.shell.ShowEvents(b.env.Session.Events) }

// trouble returns what was lost since the line before. While lines are in flight, the end of
// their session shows in their answers.
func (b *Batch) trouble(w *window) error {
	err := b.shell.Lost()
	if w.busy() {
		return err
	}
	return errors.Join(b.showEvents(), err)
}

// over reports whether a failure ends the batch.
func (b *Batch) over(err error) bool {
	switch {
	case err == nil:
		return b.opts.StopAtError && b.status != commands.StatusOK
	case errors.As(err, new(*commands.FinalError)) && !b.opts.KeepGoing, ends(err),
		errors.Is(err, exit.ErrInterrupted), errors.Is(err, exit.ErrTerminated), errors.Is(err, context.Canceled),
		errors.As(err, new(*exit.WriteError)):
		return true
	}
	return b.opts.StopAtError
}

// fail reports a failure, and keeps the exit status of the first.
func (b *Batch) fail(cmd string, err error) {
	if err == nil {
		return
	}
	if !exit.Silent(err) {
		b.shell.Report(b.Wording(cmd, err))
	}
	if b.status == commands.StatusOK {
		b.status = exit.Status(err)
	}
}

// Wording returns what is printed for an error of a command, or of none if cmd is "": where it
// happened and what, on one line, as compilers do.
func (b *Batch) Wording(cmd string, err error) string {
	text := err.Error()
	if cmd != "" {
		if !commands.Printable(cmd) { // it may be any word
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
