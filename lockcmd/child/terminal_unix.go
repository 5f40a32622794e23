//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// terminal is the one that controls us. A nil one is none.
type terminal struct {
	file  *os.File
	group int        // ours
	modes *tty.Modes // before the program had it
	given bool
}

// openTerminal returns nil where no terminal controls us, as under cron, and
// where it is of no use: a program can run without.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	modes, err := tty.GetModes(f)
	if err != nil { // it has hung up
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

// isControlling reports whether a file is the terminal that controls us.
func isControlling(f *os.File) bool {
	_, err := tty.Foreground(f)
	return err == nil
}

// ours reports whether we are the group that has the terminal.
func (t *terminal) isOurs() bool { return t != nil && t.hasGroup(t.group) }

// has reports whether that group has the terminal.
func (t *terminal) hasGroup(group int) bool {
	if t == nil {
		return false
	}
	now, err := tty.Foreground(t.file)
	return err == nil && now == group
}

// give hands the terminal to a group. One that is gone does not need it.
func (t *terminal) giveTo(group int) error {
	t.given = true
	if err := tty.SetForeground(t.file, group); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("cannot give the command access to the terminal: %w", err)
	}
	return nil
}

// takeBack takes the terminal from whoever has it now: the program may have
// handed it on.
func (t *terminal) takeBack() error {
	if t == nil || !t.given {
		return nil
	}
	if err := tty.SetForeground(t.file, t.group); err != nil {
		return fmt.Errorf("cannot return the terminal to zksh: %w", err)
	}
	return nil
}

// restore gives the terminal the modes it had.
func (t *terminal) restoreModes() error {
	if t == nil || !t.given {
		return nil
	}
	if err := tty.Quietly(func() error { return tty.SetModes(t.file, t.modes) }); err != nil {
		return fmt.Errorf("cannot restore the terminal modes: %w", err)
	}
	return nil
}
