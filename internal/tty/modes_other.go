//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import "os"

// KeepModes is for terminals as Unix has them.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }
