//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// The requests that read and write a terminal's modes.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// Quietly calls do without the risk that SIGTTOU stops this process, because do changes the
// terminal while another job is in the foreground. The signal stays ignored afterwards, because Go
// cannot undo that.
func Quietly(do func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return do()
}
