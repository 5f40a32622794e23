//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// macOS and the BSDs have no counterpart of Linux's child subreaper, or zksh does not use it. So the tree of a
// program is its process group, and zksh cannot name the processes in it. zksh notices the end of the keeper
// when the link is closed. Whether an empty group remains is not known for all of these systems.
const (
	adoptsOrphans    = false
	keepsEmptyGroups = false
)

func adoptOrphans(bool)                    {}
func (t *tree) children() []int            { return nil }
func inOtherSession(int) bool              { return false }
func hasEnded(int) bool                    { return false }
func describeTree(int) string              { return "" }
func setProcessName(string)                {}
func programAttr(int) *syscall.SysProcAttr { return nil }
func duplicateTo(from, fd int) error       { return unix.Dup2(from, fd) }

// now returns the time since the machine was started, in nanoseconds. If somebody sets the clock, the system
// also changes the time at which the machine was started.
func now() int64 {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return time.Now().UnixNano()
	}
	return time.Now().UnixNano() - boot.Nano()
}

// executable returns the path of the zksh executable, with which Run starts the keeper.
func executable() (string, error) { return os.Executable() }

// startNothing starts a process that ends at once, and returns its process id, or 0.
func startNothing() (pid int) {
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", ":"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		return 0
	}
	return pid
}

// isIgnored reports whether a signal is ignored.
func isIgnored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// enter makes the Listener l receive SIGTSTP like other signals, so that Ctrl-Z does not stop zksh.
func enter(l *Listener) error {
	l.add(syscall.SIGTSTP)
	return nil
}

// leave does nothing. Only on Linux does it restore the default action of SIGTSTP.
func leave() error { return nil }
