//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"os"
	"syscall"
)

// executable returns the path of the zksh executable, with which Run starts the keeper.
func executable() (string, error) { return os.Executable() }

// becomeReaper does nothing, because macOS and the BSDs have no counterpart of Linux's child
// subreaper, which becomes the parent of orphans.
func becomeReaper() error { return nil }

// childAttr returns attributes that put the program into its own process group.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// A cgroup is a placeholder, because only Linux has control groups.
type cgroup struct{}

func newCgroup() *cgroup                    { return nil }
func (*cgroup) path() string                { return "" }
func (*cgroup) attach(*syscall.SysProcAttr) {}
func (*cgroup) release()                    {}
func (*cgroup) isEmpty() bool               { return false }
func removeCgroup(string)                   {}
func killCgroup(string) error               { return nil }

// canKillAll reports whether the keeper can kill processes of other users.
func canKillAll() bool { return os.Geteuid() == 0 }

// killTree does nothing, because on macOS and the BSDs zksh cannot find the descendants of a
// process. On Linux, it kills them.
func killTree(int) (left int, err error) { return 0, nil }

// reapOrphans does nothing, because on macOS and the BSDs orphans do not become children of the
// keeper.
func reapOrphans(int) {}

// countGroup returns 0 if the process group is empty. Otherwise, it returns -1, because zksh can
// count the processes of a group only on Linux.
func countGroup(group int) int {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return 0
	}
	return -1
}

// catchSuspend makes the Listener l receive SIGTSTP like other signals, so that Ctrl-Z does not
// suspend zksh. The returned function does nothing. Only on Linux does it restore the default
// action of the signal.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	return func() error { return nil }, nil
}
