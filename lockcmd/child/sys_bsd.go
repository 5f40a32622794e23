//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"errors"
	"os"
	"syscall"
)

// executable returns the path of the zksh executable, with which Run starts the keeper.
func executable() (string, error) { return os.Executable() }

// becomeReaper does nothing, because a process cannot become the parent of orphans on this
// system.
func becomeReaper() error { return nil }

// childAttr returns attributes that put the program into its own process group.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// A cgroup is a placeholder, because control groups do not exist on this system.
type cgroup struct{}

func newCgroup() *cgroup                    { return nil }
func (*cgroup) path() string                { return "" }
func (*cgroup) attach(*syscall.SysProcAttr) {}
func (*cgroup) release()                    {}
func (*cgroup) isEmpty() bool               { return false }
func removeCgroup(string)                   {}
func killCgroup(string) error               { return nil }

// Escape returns an error that explains how processes can continue without the lock. On this
// system, a process can do so if it leaves the process group or changes to another user.
func Escape(string) (likely bool, err error) {
	return false, errors.New("on this system, zksh cannot terminate processes that leave the command's process group")
}

// killTree does nothing, because the descendants of a process cannot be found on this system.
func killTree(int) (left int, err error) { return 0, nil }

// reapOrphans does nothing, because orphans do not become children of the keeper.
func reapOrphans(int) {}

// countGroup returns 0 if the process group is empty. Otherwise, it returns -1, because the
// number of processes is unknown on this system.
func countGroup(group int) int {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return 0
	}
	return -1
}

// catchSuspend makes l receive SIGTSTP like other signals. On this system, release does not undo
// this, which would need a system call; see suspend_linux.go.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	return func() error { return nil }, nil
}
