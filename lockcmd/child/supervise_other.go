//go:build !unix || aix || solaris

package child

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// forwardedSignals is empty on this system, because the console sends Ctrl-C to the program
// directly.
var forwardedSignals []os.Signal

func terminates(os.Signal) bool { return true }

// Keeper does nothing on this system, because there are no keepers.
func Keeper() (status int, isKeeper bool) { return 0, false }

// Escape returns an error that explains how processes can continue without the lock. On this
// system, all processes that the program starts can do so. The program itself can do so if zksh
// dies.
func Escape(string) (likely bool, err error) {
	return false, errors.New("on this system, zksh can terminate only the command itself, but not the processes that it starts; if zksh is killed, the command continues")
}

// supervise starts the program and waits until it has ended. On this system, there are no
// process groups and no SIGTERM. A value on stop is a deadline, at which supervise kills the
// program.
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
