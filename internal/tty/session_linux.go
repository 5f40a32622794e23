package tty

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	if err != nil { // the leader is gone, or belongs to another namespace
		return ""
	}
	// Behind the program's name, which may contain anything, the start is the 20th field.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%s %d %s", bytes.TrimSpace(boot), leader, fields[19])
}

// Name is the name of a terminal, such as pts/3. It is empty where that is not known, and of
// what is no terminal.
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
