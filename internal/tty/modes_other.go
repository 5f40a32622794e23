//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import (
	"errors"
	"os"
	"os/exec"
)

// Quietly calls change. Only Unix stops a background process that changes the terminal.
func Quietly(change func() error) error { return change() }

// EndJob kills a program. Only Unix can ask it to terminate.
func EndJob(p *os.Process) error { return p.Kill() }

// HideTyped returns an error, because it is implemented only for Unix.
func HideTyped(*os.File) (show func() error, err error) {
	return nil, errors.New("on this system, zksh cannot hide what you type")
}

// HideKeys returns an error, because it is implemented only for Unix.
func HideKeys(f *os.File) (show func() error, err error) { return HideTyped(f) }

// KeepModes returns a function that does nothing, because terminal modes exist only on Unix.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }

// RunJob runs a program until it ends.
func RunJob(cmd *exec.Cmd) error { return cmd.Run() }

// ExitStatus returns the exit status of a program that has ended.
func ExitStatus(cmd *exec.Cmd) int { return cmd.ProcessState.ExitCode() }

// EndedByKey returns false, because keys send signals only on Unix.
func EndedByKey(*exec.Cmd) bool { return false }
