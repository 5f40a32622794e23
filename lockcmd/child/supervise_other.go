//go:build !unix || aix || solaris

package child

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// forwardedSignals is empty, because on Windows the console sends Ctrl-C to the program directly.
// On Unix, zksh passes signals on to the program.
var forwardedSignals []os.Signal

func terminates(os.Signal) bool { return true }

// Keeper returns false, because zksh uses keeper processes only on Unix. On other systems such as
// Windows, no process terminates the program if zksh dies.
func Keeper() (status int, isKeeper bool) { return 0, false }

// Escape returns nil, because zksh can terminate the program itself on systems such as Windows.
func Escape(string) error { return nil }

// supervise starts the program and waits until it has ended. It is the version for systems such as
// Windows, on which zksh has no process groups and no SIGTERM. A value on stop is a deadline, at
// which supervise kills the program.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	if err := cmd.Start(); err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // returns when the program has ended
	var due moment
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if errors.As(err, new(*exec.ExitError)) {
				err = nil // the exit status already reports the failure
			}
			return cmd.ProcessState.ExitCode(), err
		case t, ok := <-stop:
			if !ok {
				stop = nil
				continue
			}
			due = momentAt(t)
			if limit := momentAt(time.Now().Add(spec.Grace)); limit.left(due) < 0 {
				due = limit
			}
			kill = time.After(0)
		case <-kill:
			if left := due.left(now()); left > 0 {
				kill = time.After(min(left, recheckInterval))
				continue
			}
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				spec.Alert(err.Error())
			}
		}
	}
}
