//go:build !windows

package tty

import "os"

// TakeEscapes does nothing: only Windows needs a call to interpret escape sequences.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey returns at once: only a Windows console remembers where a line began.
func AwaitKey(*os.File) error { return nil }
