//go:build !windows

package tty

import "os"

// TakeEscapes does nothing, because only a Windows console must be asked to interpret escape
// sequences.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey returns at once, because only a Windows console requires waiting for a key before a
// read.
func AwaitKey(*os.File) error { return nil }
