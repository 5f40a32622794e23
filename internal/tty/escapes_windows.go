package tty

import (
	"os"

	"golang.org/x/sys/windows"
)

// TakeEscapes has a console take escape sequences, as other terminals do by themselves.
func TakeEscapes(f *os.File) error {
	console := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return err
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
}
