//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import "golang.org/x/sys/unix"

// The requests that read and write a terminal's modes.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
