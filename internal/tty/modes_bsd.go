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

// Quietly calls change, which may change the terminal while another job is in the foreground.
// Without Quietly, the signal SIGTTOU would stop this process. The signal stays ignored
// afterwards, because Go cannot undo that.
func Quietly(change func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return change()
}
