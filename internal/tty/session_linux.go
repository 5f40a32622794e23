package tty

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	if err != nil { // the leader is gone, or belongs to another namespace
		return ""
	}
	// The start time is the 20th field after the program's name, which may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%s %d %s", bytes.TrimSpace(boot), leader, fields[19])
}

// Name returns the name of a terminal, such as pts/3. It is empty if the name is unknown or f is not
// a terminal.
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
