//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package tty

import (
	"errors"
	"os"
	"os/exec"
)

// Quietly calls change. On Linux, macOS and the BSDs, it also prevents the system from
// stopping this process for changing the terminal in the background. Windows never stops a
// process for that.
func Quietly(change func() error) error { return change() }

// EndJob kills a program at once, because Windows has no signal that asks a program to
// terminate. On Linux, macOS and the BSDs, EndJob sends TERM instead.
func EndJob(p *os.Process) error { return p.Kill() }

// HideTyped returns an error, because zksh can hide typed characters only on Linux, macOS
// and the BSDs.
func HideTyped(*os.File) (show func() error, err error) {
	return nil, errors.New("on this system, zksh cannot hide what you type")
}

// HideKeys returns an error, because zksh can hide typed characters only on Linux, macOS and
// the BSDs.
func HideKeys(f *os.File) (show func() error, err error) { return HideTyped(f) }

// KeepModes returns a function that does nothing, because zksh changes terminal modes only
// on Linux, macOS and the BSDs.
func KeepModes(*os.File) (putBack func() error) { return func() error { return nil } }

// RunJob runs a program until it ends. On Linux, macOS and the BSDs, it also restores the
// modes of the terminal and terminates the whole job.
func RunJob(cmd *exec.Cmd) error { return cmd.Run() }

// ExitStatus returns the exit status of a program that has ended.
func ExitStatus(cmd *exec.Cmd) int { return cmd.ProcessState.ExitCode() }

// EndedByKey returns false, because on Windows a key such as Ctrl-C does not terminate a
// program by a signal.
func EndedByKey(*exec.Cmd) bool { return false }
