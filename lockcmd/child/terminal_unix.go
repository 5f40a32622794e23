//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// A terminal is the controlling terminal of zksh.
type terminal struct {
	file         *os.File     // nil if there is no terminal
	restoreModes func() error // restores the terminal modes from before the program got the terminal
	given        bool         // whether the program has been given the terminal
	alert        func(text string)
}

// openTerminal opens the controlling terminal of zksh. If there is none, as under cron, the program runs without
// a terminal.
func openTerminal(alert func(text string)) *terminal {
	f, _ := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	return &terminal{file: f, restoreModes: tty.KeepModes(f), alert: alert}
}

// isOurs reports whether zksh's process group is the foreground process group of the terminal.
func (t *terminal) isOurs() bool { return inForeground(t.file, unix.Getpgrp()) }

// inForeground reports whether a process group is in the foreground of f. It returns false if f is nil, or not
// the controlling terminal of zksh.
func inForeground(f *os.File, group int) bool {
	now, err := tty.Foreground(f)
	return err == nil && now == group
}

// giveTo puts a process group into the foreground of the terminal. It is not an error if the group has already
// ended.
func (t *terminal) giveTo(group int) {
	t.given = true
	err := tty.SetForeground(t.file, group)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		t.alert("cannot give the command access to the terminal: " + err.Error())
	}
}

// takeBack puts the process group of zksh into the foreground of the terminal, even if the program has given
// the terminal to another group. If restore is true, it also restores the modes that the terminal had before
// the program was given it.
func (t *terminal) takeBack(restore bool) {
	if !t.given {
		return
	}
	err := tty.SetForeground(t.file, unix.Getpgrp())
	if restore {
		err = errors.Join(err, t.restoreModes())
	}
	if err != nil {
		t.alert("cannot take the terminal back from the command: " + err.Error())
	}
}
