//go:build !windows

package tty

import "os"

// TakeEscapes does nothing. All terminals except the Windows console interpret escape
// sequences by default.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey returns at once. Only on a Windows console must the caller wait for a key before it
// reads, because nothing may be printed there during a read.
func AwaitKey(*os.File) error { return nil }
