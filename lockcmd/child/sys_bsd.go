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
// when the link is closed.
const adoptsOrphans = false

func adoptOrphans(bool)                  {}
func dieWithKeeper(*syscall.SysProcAttr) {}
func (t *tree) children() []int          { return nil }
func listChildren() ([]int, bool)        { return nil, true }
func hasEnded(int) bool                  { return false }
func describeTree(int) string            { return "" }

// now returns the time since the machine was started, in nanoseconds. If somebody sets the clock, the system
// also changes the time at which the machine was started.
func now() int64 {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return time.Now().UnixNano()
	}
	return time.Now().UnixNano() - boot.Nano()
}

// startNothing starts a process that ends at once, as the leader of a group or not. It returns the process id,
// or 0.
func startNothing(leads bool) (pid int) {
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: leads}}
	pid, _ = syscall.ForkExec("/bin/sh", []string{"sh", "-c", ":"}, attr)
	return pid
}

// catchSuspend makes l receive SIGTSTP like other signals, so that Ctrl-Z does not stop zksh. Only on Linux does
// the returned function restore the default action.
func catchSuspend(l *Listener) (restore func()) {
	signal.Notify(l.signals, syscall.SIGTSTP)
	return func() {}
}

// becomeKeeper gives the program the default action of SIGTTOU, which tty.Quietly makes zksh ignore.
func becomeKeeper() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU) }
