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

// executable returns the path of the executable for the keeper: the file that this process
// runs, even if another file has replaced it meanwhile.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// becomeReaper makes orphaned descendants children of the keeper.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr returns attributes that put the program into its own process group, and kill it
// when the keeper dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Escape returns an error that explains how processes of the named program can continue
// without the lock, or nil if none can. likely reports whether the program is known to do so.
// No process escapes if zksh may signal all processes, or may create a control group.
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

// canKillAll reports whether this process may signal all its descendants, given the contents
// of /proc/self/status.
func canKillAll(status string) bool {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff":
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set&(1<<unix.CAP_KILL) != 0 {
				return true
			}
		case "NoNewPrivs":
			if value == "1" { // set-uid programs then run as the same user
				return true
			}
		}
	}
	return false
}
