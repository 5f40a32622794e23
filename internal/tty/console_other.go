//go:build !windows

package tty

import "os"

// TakeEscapes is for consoles that are to be asked to take escape sequences.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey is for consoles that remember where a line began.
func AwaitKey(*os.File) error { return nil }
