//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"errors"
	"os"
	"syscall"
)

// executable returns the path of the executable for the keeper.
func executable() (string, error) { return os.Executable() }

// becomeReaper does nothing: on this system a process cannot become the parent of orphans.
func becomeReaper() error { return nil }

// childAttr returns attributes that put the program into its own process group.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// A cgroup does not exist on this system.
type cgroup struct{}

func newCgroup() *cgroup                    { return nil }
func (*cgroup) path() string                { return "" }
func (*cgroup) attach(*syscall.SysProcAttr) {}
func (*cgroup) release()                    {}
func (*cgroup) isEmpty() bool               { return false }
func removeCgroup(string)                   {}
func killCgroup(string) error               { return nil }

// Escape reports how processes can continue without the lock. On this system, a process can
// do so if it leaves the process group or changes to another user.
func Escape(string) (likely bool, err error) {
	return false, errors.New("on this system, zksh cannot terminate processes that leave the command's process group")
}

// killTree does nothing: on this system, the descendants of a process cannot be found.
func killTree(int) (left int, err error) { return 0, nil }

// reapOrphans does nothing, because orphans do not become children of the keeper.
func reapOrphans(int) {}

// countGroup returns 0 for an empty group, and -1 otherwise, because the number is unknown.
func countGroup(group int) int {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return 0
	}
	return -1
}

// catchSuspend makes zksh receive SIGTSTP like other signals. On this system, release does
// not undo that; suspend_linux.go explains why this needs a system call.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	return func() error { return nil }, nil
}
