package child

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childCode is what happened to a child, as waitid names it.
const childStopped = 5

// await waits until the child stops or ends. One that has ended is not yet
// reaped: its number, which is that of its group, is nobody else's until reap.
func await(pid int) (change, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != childStopped {
			return change{}, err
		}
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) // this stop is told
		if by := childStatus(&info); err != nil || by != 0 {
			return change{stopped: by}, err
		}
		// It goes on already.
	}
}

// childStatus is the signal that stopped a child. The library hides the field,
// which follows three numbers, padding on 64 bits, and two numbers more.
func childStatus(info *unix.Siginfo) syscall.Signal {
	const offset = 3*4 + 4*(unsafe.Sizeof(uintptr(0))/8) + 2*4
	return syscall.Signal(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// reap takes the status of a child that has ended.
func reap(pid int, c change) (syscall.WaitStatus, error) {
	status := c.status // none so far
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status, err
		}
	}
}
