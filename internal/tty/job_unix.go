//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunJob runs a program made by exec.CommandContext until it has ended, and puts the
// terminal's modes back. While our job has the terminal the program is part of it: keys
// reach it as they reach us. Else it is a job of its own, so that the end of the context
// ends all of it: TERM at once, and KILL when cmd.WaitDelay is over.
func RunJob(cmd *exec.Cmd) error {
	ours := inForeground()
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	if !ours {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	}
	putBack := KeepModes(os.Stdin)
	err := cmd.Run()
	if end, ok := exitOf(cmd); ok && !ours && end.Signaled() && end.Signal() == unix.SIGKILL {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what is left of the job; there may be nothing
	}
	return errors.Join(err, putBack())
}

func exitOf(cmd *exec.Cmd) (syscall.WaitStatus, bool) {
	if cmd.ProcessState == nil { // it was not started
		return 0, false
	}
	end, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return end, ok
}

// ExitStatus is that of a program that has ended, as a shell has it: 128+n for a signal.
func ExitStatus(cmd *exec.Cmd) int {
	if end, ok := exitOf(cmd); ok && end.Signaled() {
		return 128 + int(end.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// EndedByKey reports whether a program was ended by a signal that a key sends, to all of the
// job that has the terminal.
func EndedByKey(cmd *exec.Cmd) bool {
	end, ok := exitOf(cmd)
	return ok && end.Signaled() && (end.Signal() == unix.SIGINT || end.Signal() == unix.SIGQUIT)
}

// inForeground reports whether our job has the terminal that one of our files is.
func inForeground() bool {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if group, err := Foreground(f); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}
