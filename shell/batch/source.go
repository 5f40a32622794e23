package batch

import (
	"context"
	"errors"
	"io"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/exit"
	"github.com/zksh/zksh/shell/syntax"
)

// Source runs the lines of a script one at a time, for the source command. It calls run for each
// line. If a line fails, Source returns an exit.ReportedError about the first such line, or the
// error that ended the script early.
func (b *Batch) Source(ctx context.Context, r io.Reader,
	run func(ctx context.Context, text string) (cmd string, err error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := readAhead(ctx, r)
	for {
		var l scriptLine
		select {
		case l = <-lines:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := b.sourceLine(ctx, l, run)
		final := errors.As(err, new(*commands.FinalError)) && !b.opts.KeepGoing || isEndedError(err)
		switch {
		case errors.Is(err, exit.ErrQuit), context.Cause(ctx) != nil && err != nil,
			errors.As(err, new(*exit.WriteError)):
			return err
		case final:
			first := *b.first
			first.EndsScript = isEndedError(err)
			return &commands.FinalError{Err: &first}
		case l.err != nil || err != nil && b.opts.StopAtError:
			return b.failure()
		}
	}
}

// sourceLine runs a line by calling run, and reports its failure, unless the line quits the shell
// or the context is done. Like take, it reports a lost lock as a failure of the next line.
func (b *Batch) sourceLine(ctx context.Context, l scriptLine,
	run func(ctx context.Context, text string) (cmd string, err error)) error {
	if l.err == io.EOF || l.err == nil && syntax.BlankOrComment(l.text) {
		return nil
	}
	b.line = l.number
	prior := b.shell.Lost()
	b.fail("", prior)
	if prior != nil && b.ends(prior) {
		return prior
	}
	cmd, err := "", l.err
	if err == nil {
		cmd, err = run(ctx, l.text)
		err = asEndedError(l.number, err)
	}
	if errors.Is(err, exit.ErrQuit) || context.Cause(ctx) != nil {
		return err
	}
	err = errors.Join(err, b.showEvents())
	b.fail(cmd, err)
	lost := b.shell.Lost()
	b.fail("", lost)
	return errors.Join(err, lost)
}
