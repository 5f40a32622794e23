// Package tty accesses the terminal: whether a file is one, its size and name, its modes, and its
// foreground process group. It also runs programs as jobs of the terminal (RunJob) and identifies
// terminal windows (Session). Systems other than Unix have only part of this.
package tty

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size returns the size of a terminal. Zeros mean that it is unknown, for example of a serial line,
// or that f is not a terminal.
func Size(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 0, 0
	}
	return columns, rows
}
