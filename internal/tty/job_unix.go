//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunJob runs a program made by exec.CommandContext until it has ended, and restores the terminal's
// modes. If our job is in the foreground, the program belongs to it and receives the signals of
// keys, as we do. Otherwise the program becomes a job of its own, so that the end of the context
// terminates all of its processes: with TERM at once, and with KILL after cmd.WaitDelay.
func RunJob(cmd *exec.Cmd) error {
	ours := inForeground()
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	if !ours {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	}
	putBack := KeepModes(os.Stdin)
	err := cmd.Run()
	if end, ok := waitStatus(cmd); ok && !ours && end.Signaled() && end.Signal() == unix.SIGKILL {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // the rest of the job; an error means that there is none
	}
	return errors.Join(err, putBack())
}

func waitStatus(cmd *exec.Cmd) (syscall.WaitStatus, bool) {
	if cmd.ProcessState == nil { // the program was not started
		return 0, false
	}
	end, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return end, ok
}

// ExitStatus returns the exit status of a program that has ended, as in a shell: 128+n for signal n.
func ExitStatus(cmd *exec.Cmd) int {
	if end, ok := waitStatus(cmd); ok && end.Signaled() {
		return 128 + int(end.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// EndedByKey reports whether a program was ended by a signal of a key, which the terminal sends to
// the complete foreground job.
func EndedByKey(cmd *exec.Cmd) bool {
	end, ok := waitStatus(cmd)
	return ok && end.Signaled() && (end.Signal() == unix.SIGINT || end.Signal() == unix.SIGQUIT)
}

// inForeground reports whether our job is in the foreground of our terminal, which one of the
// standard files may be.
func inForeground() bool {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if group, err := Foreground(f); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}
