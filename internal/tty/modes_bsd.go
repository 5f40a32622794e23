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

// Quietly does something to the terminal that would stop a process which does
// not have it. The signal stays ignored afterwards: Go does not take that back.
func Quietly(do func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return do()
}
