//go:build !windows

package tty

import "os"

// TakeEscapes does nothing. All terminals except the Windows console interpret escape
// sequences by default.
func TakeEscapes(*os.File) error { return nil }

// AwaitKey returns at once. On a Windows console, it waits for a key, because zksh must not print
// anything there during a read.
func AwaitKey(*os.File) error { return nil }
