package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Session returns an identifier of the terminal window in which zksh runs: the ID of the process
// session and the start time of its leader. The start time is needed because process IDs are
// reused. Session returns an empty string if the leader is unknown.
func Session() string {
	leader, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", leader)
	if err != nil || int(info.Proc.P_pid) != leader { // the leader has ended
		return ""
	}
	return fmt.Sprintf("%d %d.%06d", leader, info.Proc.P_starttime.Sec, info.Proc.P_starttime.Usec)
}

// Name returns an empty string, because zksh does not determine the name of a terminal on macOS.
func Name(*os.File) string { return "" }
