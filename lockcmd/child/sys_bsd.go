//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"errors"
	"os"
	"syscall"
)

// executable is what the keeper is started from.
func executable() (string, error) { return os.Executable() }

// becomeReaper would make orphans the keeper's; here nobody can.
func becomeReaper() error { return nil }

// childAttr puts the program into a group of its own.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// box is a control group, which there is none of.
type cgroup struct{}

func newCgroup() *cgroup                    { return nil }
func (*cgroup) path() string                { return "" }
func (*cgroup) attach(*syscall.SysProcAttr) {}
func (*cgroup) release()                    {}
func (*cgroup) isEmpty() bool               { return false }
func removeCgroup(string)                   {}
func killCgroup(string) error               { return nil }

// Escape reports whether a program could go on without its lock. Here one that
// leaves its process group can, and so can one that becomes another user.
func Escape(string) (likely bool, err error) {
	return false, errors.New("on this system, zksh cannot terminate processes that leave the command's process group")
}

// killTree kills what descends from a process. Here only groups can be found.
func killTree(int) (left int, err error) { return 0, nil }

// reapOrphans has nothing to do: orphans are not ours.
func reapOrphans(int) {}

// count gives -1 for any number of members of a group.
func countGroup(group int) int {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return 0
	}
	return -1
}

// catchSuspend has SIGTSTP be a signal like others, from then on: see suspend_linux.go.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	return func() error { return nil }, nil
}
