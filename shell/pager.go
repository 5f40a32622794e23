package shell

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/tty"
)

// pager shows what is longer than the screen, with the program that the person
// has set. It has the terminal to itself meanwhile.
type pager struct {
	command string
	size    func() (columns, rows int)
	ctx     context.Context // of the shell: SIGTERM ends the pager too
}

// fits tells whether text can be read without a pager. Only the start of a long
// text is looked at.
func (p *pager) fits(text []byte) bool {
	columns, rows := p.size()
	if columns == 0 || rows == 0 { // nobody knows
		return true
	}
	used := 0
	for line := range bytes.Lines(text) {
		if used += 1 + (len(line)-1)/columns; used >= rows {
			return false
		}
	}
	return true
}

// show runs the pager until the person leaves it, and gives the terminal back as
// it was. A noPagerError says that nothing was shown; whether a pager was pleased
// with its end does not matter.
func (p *pager) show(text []byte) error {
	cmd := exec.CommandContext(p.ctx, "sh", "-c", p.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), os.Stdout, os.Stderr
	cmd.Cancel = func() error { return tty.EndJob(cmd.Process) }
	cmd.WaitDelay = time.Second
	putBack := tty.KeepModes(os.Stdout)
	err := pagerFailure(cmd.Run())
	return errors.Join(err, putBack())
}

// pagerFailure leaves of what a pager has come to what matters.
func pagerFailure(err error) error {
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ended && exit.ExitCode() != commands.StatusUnknown && exit.ExitCode() != commands.StatusCannotRun:
		return nil
	case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, exec.ErrWaitDelay), errors.Is(err, context.Canceled):
		return nil
	}
	return noPagerError{err}
}

// noPagerError says that the pager could not be run.
type noPagerError struct{ err error }

func (e noPagerError) Error() string { return "the pager cannot be run: " + e.err.Error() }

// Unwrap gives the cause.
func (e noPagerError) Unwrap() error { return e.err }
