package tty

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// The requests that read and write a terminal's modes.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// Quietly does something to the terminal that would stop a process which does
// not have it. The signal is blocked in this thread only: ignored, it would be so
// in every program started meanwhile, and Go would not take that back.
func Quietly(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1) // within the first word, which has 32 bits at least
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	err := do()
	if back := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); back != nil {
		return back
	}
	return err
}
