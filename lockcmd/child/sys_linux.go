package child

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable returns the path of the zksh executable, with which Run starts the keeper. The path
// refers to the executable of this process, even if an update has replaced the file.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// becomeReaper makes this process the parent of all descendants that become orphans.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr returns attributes that put the program into its own process group. They also make
// the kernel kill the program when the keeper dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// canKillAll reports whether the keeper can kill all descendants of the program, even if they run as
// other users.
func canKillAll() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && mayKillAll(string(status)) || canCreateCgroup()
}

// mayKillAll reports whether this process is permitted to signal all of its descendants. status is
// the content of /proc/self/status.
func mayKillAll(status string) bool {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff":
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set&(1<<unix.CAP_KILL) != 0 {
				return true
			}
		case "NoNewPrivs":
			if value == "1" { // a setuid program then runs as the same user
				return true
			}
		}
	}
	return false
}
