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

// Quietly calls do without the risk that SIGTTOU stops this process, because do changes the
// terminal while another job is in the foreground. It blocks the signal in this thread. To ignore
// the signal instead would affect all programs started meanwhile, and Go could not undo it.
func Quietly(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1) // bits of the first word, which has at least 32
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	err := do()
	if back := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); back != nil {
		return back
	}
	return err
}
