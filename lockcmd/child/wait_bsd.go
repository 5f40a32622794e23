//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import "syscall"

// waitForChange waits until the child with the given pid stops or ends. It reaps a child that has
// ended, so the pid may be used again. In theory, a later signal to the child's group could
// therefore reach an unrelated group.
func waitForChange(pid int) (change, error) {
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return change{}, err
		case status.Stopped():
			return change{stopped: status.StopSignal()}, nil
		default:
			return change{status: status}, nil
		}
	}
}
