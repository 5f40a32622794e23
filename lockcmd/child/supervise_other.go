//go:build !unix || aix || solaris

package child

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// supervise starts the program and waits until it is gone. Here it has no
// group and no TERM: an order to stop kills it at its deadline.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	if err := cmd.Start(); err != nil {
		return 0, cannotRun(spec.Argv[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the program, which is received below
	var kill <-chan time.Time
	for {
		select {
		case err := <-ended:
			if errors.As(err, new(*exec.ExitError)) {
				err = nil // the status tells
			}
			return cmd.ProcessState.ExitCode(), err
		case at, ok := <-stop:
			if !ok {
				stop = nil
				continue
			}
			kill = time.After(min(time.Until(at), spec.Grace))
		case <-kill:
			if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				spec.Alert(err.Error())
			}
		}
	}
}
