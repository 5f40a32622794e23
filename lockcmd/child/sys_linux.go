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

// executable is what the keeper is started from: the very file that runs, though
// another one may have taken its place by now.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// adopt makes orphans of the program the keeper's children, wherever they went.
func becomeReaper() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr puts the program into a group of its own, and has it killed when the
// keeper dies.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Escape tells how a program could go on without its lock: nil means that nothing
// can. It is likely if the program with that name is known to. Whoever may signal
// all processes, or may have a control group, lets nothing escape.
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

// mayKillAll tells from /proc/self/status whether no process of ours can get out
// of our reach.
func canKillAll(status string) bool {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "CapEff":
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set&(1<<unix.CAP_KILL) != 0 {
				return true
			}
		case "NoNewPrivs":
			if value == "1" { // set-uid programs get nothing by it
				return true
			}
		}
	}
	return false
}
