package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// Escape returns an error that explains how processes of the named program can continue without the
// lock. It returns nil if zksh may signal all processes or create a control group, because no
// process can then continue. likely reports whether the program is known to run as another user, so
// that it would continue itself.
func Escape(name string) (likely bool, err error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false, fmt.Errorf("without /proc, zksh can terminate only the command's process group: %w", err)
	}
	if canKillAll(string(status)) || canCreateCgroup() {
		return false, nil
	}
	err = errors.New("zksh is not root and cannot create a cgroup for the command, so it cannot terminate processes that change to another user")
	path, lookErr := exec.LookPath(name)
	if lookErr != nil {
		return false, err
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Mode&unix.S_ISUID != 0 && st.Uid != uint32(unix.Geteuid()) {
		return true, fmt.Errorf("the program %s runs as another user (setuid), so zksh cannot terminate it when the lock is lost: zksh is not root and cannot create a cgroup for the program", name)
	}
	return false, err
}

// canKillAll reports whether this process is permitted to kill all of its descendants. status is
// the content of /proc/self/status.
func canKillAll(status string) bool {
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
