package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/zksh/zksh/internal/tty"
)

// start runs the command for a change, with the data on its standard input. It is told
// to end when ctx ends.
func (f *follower) start(ctx context.Context, c *nodeChange, data []byte) {
	cmd := exec.CommandContext(ctx, f.argv[0], f.argv[1:]...)
	cmd.Env = append(os.Environ(), "ZK_EVENT="+c.Event, "ZK_PATH="+c.Path, fmt.Sprintf("ZK_VERSION=%d", c.Version))
	cmd.Stdin = bytes.NewReader(data)
	f.env.Streams.Lead(cmd)
	ran := make(chan error, 1)
	f.ran = ran
	go func() { ran <- f.ended(ctx, cmd, tty.RunJob(cmd)) }() // ends with the command; step waits for that
}

// ended is what follows from the end of the command: that of a single change has its
// status, another one's failure is told.
func (f *follower) ended(ctx context.Context, cmd *exec.Cmd, err error) error {
	if cmd.ProcessState == nil {
		status := StatusCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			status = StatusUnknown
		}
		return &StatusError{Status: status, Err: fmt.Errorf("cannot run %s: %w", f.argv[0], startError(err))}
	}
	status := tty.ExitStatus(cmd)
	switch {
	case status == StatusOK, ctx.Err() != nil: // then it was told to end
		return nil
	case f.once:
		return &StatusError{Status: status}
	case status == StatusInterrupted: // Ctrl-C was for us, too
		return nil
	}
	f.env.Screen.Alert(fmt.Sprintf("%s exited with status %d; still watching", f.argv[0], status))
	return nil
}

// startError takes off an error what is said twice.
func startError(err error) error {
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	return err
}
