//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import "os"

// Quietly is for terminals that stop those who write from the background.
func Quietly(do func() error) error { return do() }

// EndJob ends a program.
func EndJob(p *os.Process) error { return p.Kill() }

// KeepModes is for terminals as Unix has them.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }
