package tty

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ioctl requests that read and set a terminal's modes.
const (
	getTermios = unix.TCGETS
	setTermios = unix.TCSETS
)

// Quietly calls change, which may change the terminal even while another job is in the foreground.
// Normally, the system would stop this process with the signal SIGTTOU. Quietly blocks that signal
// in the current thread for the duration of the call. Ignoring the signal instead would affect
// programs that zksh starts, and Go could not undo it.
func Quietly(change func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1) // SIGTTOU is in the first word of the set, which has at least 32 bits
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	err := change()
	if back := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); back != nil {
		return back
	}
	return err
}
