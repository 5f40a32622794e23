//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import "os"

// Quietly is for terminals that stop those who write from the background.
func Quietly(do func() error) error { return do() }

// KeepModes is for terminals as Unix has them.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }
