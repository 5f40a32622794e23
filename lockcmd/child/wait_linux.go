package child

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Values of the field si_code in the result of the system call waitid: CLD_EXITED and
// CLD_STOPPED.
const (
	childExited  = 1
	childStopped = 5
)

// waitForChange waits until the child with the given pid stops or ends. It does not reap a
// child that has ended, so the pid, which is also the id of the child's group, stays reserved
// until this process exits.
func waitForChange(pid int) (change, error) {
	var info unix.Siginfo
	for {
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return change{}, err
		case info.Code == childExited:
			return change{status: syscall.WaitStatus(childStatus(&info) << 8)}, nil
		case info.Code != childStopped:
			return change{status: syscall.WaitStatus(childStatus(&info))}, nil // the status contains the signal that killed the child
		}
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) // remove the report of this stop, so that the next call does not return it
		if by := childStatus(&info); err != nil || by != 0 {
			return change{stopped: syscall.Signal(by)}, err
		}
		// The child has already been resumed, so wait for its next change.
	}
}

// childStatus returns the exit status of a child, or the signal that stopped or killed it.
// Package unix does not export this field. It follows three numbers, padding on 64-bit
// systems, and two more numbers.
func childStatus(info *unix.Siginfo) int32 {
	const offset = 3*4 + 4*(unsafe.Sizeof(uintptr(0))/8) + 2*4
	return *(*int32)(unsafe.Add(unsafe.Pointer(info), offset))
}
