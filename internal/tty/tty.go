// Package tty gives zksh access to its terminal: whether a file is a terminal, its size and
// name, its modes, and its foreground process group. It also runs programs as jobs of the
// terminal (RunJob) and identifies terminal windows (Session). On systems other than Unix, only
// part of this is implemented.
package tty

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size returns the size of a terminal. Both numbers are 0 if the size is unknown, for example
// for a serial line, or if f is not a terminal.
func Size(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 0, 0
	}
	return columns, rows
}
