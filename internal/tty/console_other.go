//go:build !windows

package tty

import "os"

// TakeEscapes does nothing: only a Windows console must be asked to interpret escape sequences.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey returns at once: only a Windows console remembers the position at which a line began.
func AwaitKey(*os.File) error { return nil }
