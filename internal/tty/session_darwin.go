package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Session identifies what runs in one terminal window: the session of processes that this one
// belongs to, also after its number has been given to another one. It is empty where that is
// not known.
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

// Name is the name of a terminal; it is not known here.
func Name(*os.File) string { return "" }
