//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package lockcmd

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETAW
)

// childAttr puts the child into a group of its own.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// quietly does something to the terminal that would stop a process which does
// not have it. The signal stays ignored afterwards: Go does not take that back.
func quietly(do func() error) error {
	signal.Ignore(syscall.SIGTTOU)
	return do()
}
