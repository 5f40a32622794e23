//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// A terminal is the controlling terminal of zksh. A nil *terminal means that there is none.
type terminal struct {
	file  *os.File
	modes *tty.Modes // terminal modes before the program got the terminal
	given bool       // whether the program has been given the terminal
}

// openTerminal opens the controlling terminal of zksh. It returns nil if there is none, as under cron, or if
// the terminal was disconnected. A program can run without a terminal.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	modes, err := tty.GetModes(f)
	if err != nil { // the terminal was disconnected
		f.Close()
		return nil
	}
	return &terminal{file: f, modes: modes}
}

func (t *terminal) close() {
	if t != nil {
		t.file.Close()
	}
}

// isOurs reports whether zksh's process group is the foreground process group of the terminal.
func (t *terminal) isOurs() bool { return t.hasGroup(unix.Getpgrp()) }

// hasGroup reports whether the given process group is in the foreground of the terminal.
func (t *terminal) hasGroup(group int) bool {
	if t == nil {
		return false
	}
	now, err := tty.Foreground(t.file)
	return err == nil && now == group
}

// giveTo puts a process group into the foreground of the terminal. It is not an error if the group has already
// ended.
func (t *terminal) giveTo(group int) error {
	t.given = true
	err := tty.SetForeground(t.file, group)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("cannot give the command access to the terminal: %w", err)
	}
	return nil
}

// takeBack puts the process group of zksh into the foreground of the terminal, even if the program has given
// the terminal to another group. If restore is true, it also restores the modes that the terminal had before
// the program was given it.
func (t *terminal) takeBack(restore bool) error {
	if t == nil || !t.given {
		return nil
	}
	err := tty.SetForeground(t.file, unix.Getpgrp())
	if restore {
		err = errors.Join(err, tty.Quietly(func() error { return tty.SetModes(t.file, t.modes) }))
	}
	if err != nil {
		return fmt.Errorf("cannot take the terminal back from the command: %w", err)
	}
	return nil
}
