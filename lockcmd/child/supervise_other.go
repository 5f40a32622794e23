//go:build !unix || aix || solaris

package child

import (
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
func Keeper() (status int, is bool) { return 0, false }

// PassKeyOn does nothing, because the console sends Ctrl-C to zksh and to the program.
func (l *Listener) PassKeyOn(context.Context) (interrupted bool, err error) { return false, nil }

// supervise starts the program and waits until it has ended. It is the version for systems such as Windows, on
// which zksh has no process groups and no SIGTERM. A value on stop is a deadline, at which supervise kills the
// program.
func supervise(spec Spec, stop <-chan time.Time) (int, error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	cmd := spec.newCommand(path, spec.Argv)
	if sig := spec.Signals.earlySignal(); sig != nil {
		return notStarted(spec.Argv[0], sig)
	}
	if err := cmd.Start(); err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // returns when the program has ended
	var due time.Time
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
			if due = t; timeLeft(t) > spec.Grace {
				due = time.Now().Add(spec.Grace)
			}
			kill = time.After(0)
		case <-kill:
			if left := timeLeft(due); left > 0 {
				kill = time.After(min(left, time.Second)) // a long timer does not notice that the machine was asleep
				continue
			}
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				spec.Alert(err.Error())
			}
		}
	}
}

// timeLeft returns the time until t by the monotonic clock, which can stop while the machine is asleep, or by
// the wall clock, which somebody can set: whichever leaves less time.
func timeLeft(t time.Time) time.Duration { return min(time.Until(t), time.Until(t.Round(0))) }

// newStartError returns a StartError with the cause of err, without the name of the program.
func newStartError(name string, err error) *StartError {
	if lookup, is := errors.AsType[*exec.Error](err); is {
		err = lookup.Err
	}
	return &StartError{name, err}
}
