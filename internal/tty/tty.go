// Package tty has what the shell asks of a terminal: whether a file is one, its
// size, its modes, and which process group has its foreground.
package tty

import (
	"os"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Size is that of a terminal in columns and rows; zeros mean that it is not known,
// as of a file that is none and of a serial line.
func Size(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 0, 0
	}
	return columns, rows
}
