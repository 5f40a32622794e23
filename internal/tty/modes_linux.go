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

// Quietly calls change, which may change the terminal while another job is in the foreground.
// Without Quietly, the signal SIGTTOU would stop this process. Quietly blocks the signal in this
// thread. If it ignored the signal instead, programs that zksh starts would ignore it too, and Go
// could not undo that.
func Quietly(change func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1) // the first word of the set has at least 32 bits, so it contains SIGTTOU
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	err := change()
	if back := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); back != nil {
		return back
	}
	return err
}
