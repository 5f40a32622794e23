//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// A terminal is our controlling terminal. A nil *terminal means that there is none.
type terminal struct {
	file  *os.File
	group int        // our process group
	modes *tty.Modes // modes before the program got the terminal
	given bool       // the program has had the terminal
}

// openTerminal opens our controlling terminal. It returns nil if there is none, as under
// cron, or if it has hung up: a program can run without a terminal.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	modes, err := tty.GetModes(f)
	if err != nil { // the terminal has hung up
		f.Close()
		return nil
	}
	return &terminal{file: f, group: unix.Getpgrp(), modes: modes}
}

func (t *terminal) close() {
	if t != nil {
		t.file.Close()
	}
}

// isControlling reports whether a file is our controlling terminal.
func isControlling(f *os.File) bool {
	_, err := tty.Foreground(f)
	return err == nil
}

// isOurs reports whether our process group is in the foreground.
func (t *terminal) isOurs() bool { return t != nil && t.hasGroup(t.group) }

// hasGroup reports whether a process group is in the foreground.
func (t *terminal) hasGroup(group int) bool {
	if t == nil {
		return false
	}
	now, err := tty.Foreground(t.file)
	return err == nil && now == group
}

// giveTo puts a process group into the foreground. It is not an error if the group has ended.
func (t *terminal) giveTo(group int) error {
	t.given = true
	if err := tty.SetForeground(t.file, group); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("cannot give the command access to the terminal: %w", err)
	}
	return nil
}

// takeBack puts our process group into the foreground, whichever group is there now: the
// program may have passed the terminal on.
func (t *terminal) takeBack() error {
	if t == nil || !t.given {
		return nil
	}
	if err := tty.SetForeground(t.file, t.group); err != nil {
		return fmt.Errorf("cannot return the terminal to zksh: %w", err)
	}
	return nil
}

// restoreModes restores the modes that the terminal had before the program.
func (t *terminal) restoreModes() error {
	if t == nil || !t.given {
		return nil
	}
	if err := tty.Quietly(func() error { return tty.SetModes(t.file, t.modes) }); err != nil {
		return fmt.Errorf("cannot restore the terminal modes: %w", err)
	}
	return nil
}
