//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import (
	"errors"
	"os"
	"os/exec"
)

// Quietly calls do. Only terminals of Unix stop background processes that change them.
func Quietly(do func() error) error { return do() }

// EndJob kills a program.
func EndJob(p *os.Process) error { return p.Kill() }

// HideTyped fails: it is implemented for Unix only.
func HideTyped(*os.File) (show func() error, err error) {
	return nil, errors.New("on this system, zksh cannot hide what you type")
}

// HideKeys fails: it is implemented for Unix only.
func HideKeys(f *os.File) (show func() error, err error) { return HideTyped(f) }

// KeepModes returns a function that does nothing: modes are implemented for Unix only.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }

// RunJob runs a program made by exec.CommandContext until it has ended.
func RunJob(cmd *exec.Cmd) error { return cmd.Run() }

// ExitStatus returns the exit status of a program that has ended.
func ExitStatus(cmd *exec.Cmd) int { return cmd.ProcessState.ExitCode() }

// EndedByKey returns false: keys send signals on Unix only.
func EndedByKey(*exec.Cmd) bool { return false }
