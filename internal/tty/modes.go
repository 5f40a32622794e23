//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Modes are a terminal's settings for input and output.
type Modes = unix.Termios

// GetModes reads a terminal's modes. It fails for a file that is not a terminal, and for a
// terminal that was disconnected.
func GetModes(f *os.File) (*Modes, error) { return unix.IoctlGetTermios(int(f.Fd()), getTermios) }

// SetModes sets a terminal's modes. If the terminal was disconnected, SetModes does nothing.
func SetModes(f *os.File, m *Modes) error {
	return UnlessGone(unix.IoctlSetTermios(int(f.Fd()), setTermios, m))
}

// PutBack restores a terminal's modes, unless another job is now in the foreground. In that case, a
// change of the modes would make the terminal stop zksh.
func PutBack(f *os.File, m *Modes) error {
	if group, err := Foreground(f); err == nil && group != unix.Getpgrp() {
		return nil
	}
	return SetModes(f, m)
}

// KeepModes saves a terminal's modes and returns a function that restores them. If the file is
// not a terminal, the returned function does nothing.
func KeepModes(f *os.File) (putBack func() error) {
	modes, err := GetModes(f)
	if err != nil {
		return func() error { return nil }
	}
	return func() error { return PutBack(f, modes) }
}

// HideTyped stops a terminal from showing typed characters, except line breaks, until show is
// called.
func HideTyped(f *os.File) (show func() error, err error) {
	modes, err := GetModes(f)
	if err != nil {
		return nil, err
	}
	show = KeepModes(f)
	modes.Lflag = modes.Lflag&^unix.ECHO | unix.ECHONL
	return show, SetModes(f, modes)
}

// HideKeys stops a terminal from showing any typed characters until show is called. It does
// nothing if another job is in the foreground.
func HideKeys(f *os.File) (show func() error, err error) {
	modes, err := GetModes(f)
	if err != nil {
		return nil, err
	}
	show = KeepModes(f)
	modes.Lflag &^= unix.ECHO | unix.ECHONL
	return show, PutBack(f, modes)
}

// Foreground returns the ID of a terminal's foreground process group. It fails if the file is
// not the controlling terminal of this process.
func Foreground(f *os.File) (group int, err error) {
	return unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
}

// SetForeground puts a process group into the foreground of a terminal, even if another job is
// in the foreground now. If the terminal was disconnected, SetForeground does nothing.
func SetForeground(f *os.File, group int) error {
	return UnlessGone(Quietly(func() error { return unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPGRP, group) }))
}

// EndJob sends the signal TERM to a program. If zksh leads its own process group, EndJob sends the
// signal to the whole group, because the program may be a pipeline. The group includes zksh, which
// is terminating anyway.
func EndJob(p *os.Process) error {
	if unix.Getpgrp() == os.Getpid() {
		return unix.Kill(0, unix.SIGTERM)
	}
	return p.Signal(unix.SIGTERM)
}

// UnlessGone returns err, or nil if err means that the terminal was disconnected.
func UnlessGone(err error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOTTY) {
		return nil
	}
	return err
}
