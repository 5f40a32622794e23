package tty

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Session returns an identifier of the terminal window in which zksh runs. It consists of the
// system's boot ID, the ID of the process session, and the start time of the session's leader. The
// boot ID and the start time are needed because process IDs are reused. Session returns an empty
// string if one of these is unknown.
func Session() string {
	leader, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	if err != nil { // the leader has ended, or is in another PID namespace
		return ""
	}
	// The start time is the 20th field after the program's name. The name may contain any
	// characters.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%s %d %s", bytes.TrimSpace(boot), leader, fields[19])
}

// Name returns the name of a terminal, such as pts/3, or an empty string if the name is unknown
// or f is not a terminal.
func Name(f *os.File) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil || !Is(f) {
		return ""
	}
	name, is := strings.CutPrefix(name, "/dev/")
	if !is {
		return ""
	}
	return name
}
