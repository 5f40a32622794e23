package shell

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
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

// show runs the pager until the person leaves it. One that cannot be run shows in
// the shell's own words; whether it was pleased with its end does not matter.
func (p *pager) show(text []byte) error {
	cmd := exec.CommandContext(p.ctx, "sh", "-c", p.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != notFound || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// notFound is a shell's exit status for a program it does not find.
const notFound = 127
