//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// ioctl requests that read and set a terminal's modes.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// Quietly calls change, and lets it change the terminal even while another job is in the
// foreground. Normally, the system would stop this process with the signal SIGTTOU. After a call of
// Quietly, the process ignores SIGTTOU until it ends, because Go cannot undo signal.Ignore.
func Quietly(change func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return change()
}
