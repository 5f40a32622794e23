//go:build !unix || aix || solaris

package child

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// forwardedSignals is empty, because on Windows the console sends Ctrl-C to the program directly. On Unix, zksh
// passes signals on to the program.
var forwardedSignals []os.Signal

func terminates(os.Signal) bool { return true }

// Keeper returns false, because zksh uses keeper processes only on Unix. On other systems such as Windows, no
// process terminates the program if zksh dies.
func Keeper() bool { return false }

// PassKeyOn does nothing, because the console sends Ctrl-C to zksh and to the program.
func (l *Listener) PassKeyOn(context.Context) (interrupted bool, err error) { return false, nil }

// supervise starts the program and waits until it has ended. It is the version for systems such as Windows, on
// which zksh has no process groups and no SIGTERM. A value on stop is a deadline, at which supervise kills the
// program.
func supervise(spec Spec, stop <-chan time.Time) (int, error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, &StartError{spec.Argv[0], errors.Unwrap(err)}
	}
	cmd := spec.newCommand(path, spec.Argv)
	if err := cmd.Start(); err != nil {
		return 0, &StartError{spec.Argv[0], cmp.Or(errors.Unwrap(err), err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // returns when the program has ended
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if errors.As(err, new(*exec.ExitError)) {
				err = nil // the exit status already reports the failure
			}
			return cmd.ProcessState.ExitCode(), err
		case due := <-stop:
			// A timer does not notice that the machine was asleep. But then, the caller sends an earlier deadline.
			kill = time.After(min(time.Until(due), spec.Grace))
		case <-kill:
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				spec.Alert(err.Error())
			}
		}
	}
}
