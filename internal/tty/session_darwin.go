package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Session identifies the terminal window that zksh runs in, by its session of processes. The result
// contains the start of the session's leader, because process numbers are reused. It is empty if
// the leader is unknown.
func Session() string {
	leader, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", leader)
	if err != nil || int(info.Proc.P_pid) != leader { // the leader is gone
		return ""
	}
	return fmt.Sprintf("%d %d.%06d", leader, info.Proc.P_starttime.Sec, info.Proc.P_starttime.Usec)
}

// Name returns "": the name of a terminal is unknown on this system.
func Name(*os.File) string { return "" }
