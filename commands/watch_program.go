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

// start starts the user's command for a change, with the znode's data on its standard input. The
// command is interrupted when ctx is cancelled.
func (f *follower) start(ctx context.Context, c *nodeChange, data []byte) {
	cmd := exec.CommandContext(ctx, f.argv[0], f.argv[1:]...)
	cmd.Env = append(os.Environ(), "ZK_EVENT="+c.Event, "ZK_PATH="+c.Path, fmt.Sprintf("ZK_VERSION=%d", c.Version))
	cmd.Stdin = bytes.NewReader(data)
	f.env.Streams.Attach(cmd)
	ran := make(chan error, 1)
	f.exited = ran
	// This goroutine ends when the command exits. The method step waits for that.
	go func() {
		hideKeys := f.env.Screen.ShowKeys()
		err := tty.RunJob(cmd)
		hideKeys()
		ran <- f.exitError(ctx, cmd, err)
	}()
}

// exitError returns the error with which watch ends after the user's command has exited, or nil if
// watch continues. With the flag -1, this error is the exit status of the command. Without it,
// exitError only prints the command's failure.
func (f *follower) exitError(ctx context.Context, cmd *exec.Cmd, err error) error {
	if cmd.ProcessState == nil {
		status := StatusCannotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			status = StatusUnknown
		}
		return &StatusError{Status: status, Err: fmt.Errorf("cannot run %s: %w", f.argv[0], plainStartError(err))}
	}
	status := tty.ExitStatus(cmd)
	switch {
	case status == StatusOK, ctx.Err() != nil: // watch itself interrupted the command if ctx has been cancelled
		return nil
	case f.once:
		return &StatusError{Status: status}
	case status == StatusInterrupted: // watch also received Ctrl-C and ends anyway
		return nil
	}
	f.env.Screen.Alert(fmt.Sprintf("%s exited with status %d; still watching", f.argv[0], status))
	return nil
}

// plainStartError removes the parts of an error that only repeat the name of the program.
func plainStartError(err error) error {
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		err = number
	}
	return err
}
