//go:build !linux

package zktest

import (
	"errors"
	"os"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }
func ownGroup() *syscall.SysProcAttr      { return nil }

func killGroup(leader *os.Process) error { return leader.Kill() }

func pauseProcess(*os.Process) error  { return errors.ErrUnsupported }
func resumeProcess(*os.Process) error { return errors.ErrUnsupported }

// Runs reports whether a process with this id exists. On Linux, it also
// recognizes a process that can no longer execute code.
func Runs(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}
