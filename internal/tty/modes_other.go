//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import (
	"errors"
	"os"
	"os/exec"
)

// Quietly is for terminals that stop those who write from the background.
func Quietly(do func() error) error { return do() }

// EndJob ends a program.
func EndJob(p *os.Process) error { return p.Kill() }

// HideTyped is for terminals as Unix has them.
func HideTyped(*os.File) (show func() error, err error) {
	return nil, errors.New("on this system, zksh cannot hide what you type")
}

// HideKeys is for terminals as Unix has them.
func HideKeys(f *os.File) (show func() error, err error) { return HideTyped(f) }

// KeepModes is for terminals as Unix has them.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }

// RunJob runs a program made by exec.CommandContext until it has ended.
func RunJob(cmd *exec.Cmd) error { return cmd.Run() }

// ExitStatus is that of a program that has ended.
func ExitStatus(cmd *exec.Cmd) int { return cmd.ProcessState.ExitCode() }

// EndedByKey is for systems where keys send signals.
func EndedByKey(*exec.Cmd) bool { return false }
