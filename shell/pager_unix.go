//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import (
	"os"

	"golang.org/x/sys/unix"
)

// endJob asks a program to end. Where the job is the shell's own, all of it is
// asked, since the program may be a pipeline; the shell is leaving already then.
func endJob(p *os.Process) error {
	if unix.Getpgrp() == os.Getpid() {
		return unix.Kill(0, unix.SIGTERM)
	}
	return p.Signal(unix.SIGTERM)
}
