//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunJob runs a program until it ends, and then restores the modes of the terminal. cmd must come
// from exec.CommandContext.
//
// If the job of zksh is in the foreground, the program joins that job, and receives the same
// signals from keys such as Ctrl-C. Otherwise, the program becomes a separate job. When the context
// ends, RunJob terminates all processes of the separate job: with TERM at once, and with KILL after
// cmd.WaitDelay.
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
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // kill the rest of the job; an error means that no process remains
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

// ExitStatus returns the exit status of a program that has ended, in the form that shells use:
// 128+n after signal n.
func ExitStatus(cmd *exec.Cmd) int {
	if end, ok := waitStatus(cmd); ok && end.Signaled() {
		return 128 + int(end.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// EndedByKey reports whether a program was terminated by a signal that a key such as Ctrl-C sends.
// The terminal sends such a signal to all processes of the foreground job.
func EndedByKey(cmd *exec.Cmd) bool {
	end, ok := waitStatus(cmd)
	return ok && end.Signaled() && (end.Signal() == unix.SIGINT || end.Signal() == unix.SIGQUIT)
}

// inForeground reports whether the job of zksh is in the foreground of its terminal. It returns
// false if neither standard input, standard output nor standard error is connected to that
// terminal.
func inForeground() bool {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if group, err := Foreground(f); err == nil {
			return group == unix.Getpgrp()
		}
	}
	return false
}
