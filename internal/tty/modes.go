//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Modes are how a terminal treats what is typed and printed.
type Modes = unix.Termios

// GetModes reads a terminal's modes. It fails for a file that is no terminal, and
// for a terminal that has hung up.
func GetModes(f *os.File) (*Modes, error) { return unix.IoctlGetTermios(int(f.Fd()), getTermios) }

// SetModes gives a terminal its modes; one that has hung up needs none.
func SetModes(f *os.File, m *Modes) error {
	return UnlessGone(unix.IoctlSetTermios(int(f.Fd()), setTermios, m))
}

// PutBack is SetModes for a terminal that another job may have by now: setting its
// modes would stop us then, so it is left alone.
func PutBack(f *os.File, m *Modes) error {
	if group, err := Foreground(f); err == nil && group != unix.Getpgrp() {
		return nil
	}
	return SetModes(f, m)
}

// KeepModes notes a terminal's modes and returns what puts them back. A file that
// is no terminal has no modes to keep.
func KeepModes(f *os.File) (putBack func() error) {
	modes, err := GetModes(f)
	if err != nil {
		return func() error { return nil }
	}
	return func() error { return PutBack(f, modes) }
}

// HideTyped has a terminal not show what is typed, but for the ends of lines.
func HideTyped(f *os.File) (show func() error, err error) {
	modes, err := GetModes(f)
	if err != nil {
		return nil, err
	}
	show = KeepModes(f)
	modes.Lflag = modes.Lflag&^unix.ECHO | unix.ECHONL
	return show, SetModes(f, modes)
}

// HideKeys makes a terminal show nothing of what is typed, until show is called. One that
// another job has stays as it is.
func HideKeys(f *os.File) (show func() error, err error) {
	modes, err := GetModes(f)
	if err != nil {
		return nil, err
	}
	show = KeepModes(f)
	modes.Lflag &^= unix.ECHO | unix.ECHONL
	return show, PutBack(f, modes)
}

// Foreground is the process group that has the terminal. It fails for a file that
// is not the terminal which controls this process.
func Foreground(f *os.File) (group int, err error) {
	return unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
}

// SetForeground hands the terminal to a process group, also while another job has
// it. A terminal that has hung up is nobody's.
func SetForeground(f *os.File, group int) error {
	return UnlessGone(Quietly(func() error { return unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPGRP, group) }))
}

// EndJob asks a program to end. Where the job is the shell's own, all of it is
// asked, since the program may be a pipeline; the shell is leaving already then.
func EndJob(p *os.Process) error {
	if unix.Getpgrp() == os.Getpid() {
		return unix.Kill(0, unix.SIGTERM)
	}
	return p.Signal(unix.SIGTERM)
}

// UnlessGone passes over that a terminal has hung up.
func UnlessGone(err error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOTTY) {
		return nil
	}
	return err
}
