//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// endJob asks a program to end. Where the job is the shell's own, all of it is
// asked, since the program may be a pipeline; the shell is leaving already then.
func endJob(p *os.Process) error {
	if unix.Getpgrp() == os.Getpid() {
		return unix.Kill(0, unix.SIGTERM)
	}
	return p.Signal(unix.SIGTERM)
}

// keepModes notes the modes of a terminal, and gives what puts them back.
func keepModes(tty *os.File) (putBack func() error) {
	modes, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios)
	if err != nil { // no terminal has no modes
		return func() error { return nil }
	}
	return func() error { return putModes(tty, modes) }
}

// putModes gives a terminal its modes, unless it is gone or another job has it:
// setting them would stop the shell then.
func putModes(tty *os.File, modes *unix.Termios) error {
	fd := int(tty.Fd())
	if owner, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && owner != unix.Getpgrp() {
		return nil
	}
	return unlessGone(unix.IoctlSetTermios(fd, setTermios, modes))
}
