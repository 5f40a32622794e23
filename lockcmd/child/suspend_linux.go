package child

import (
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// After a call of signal.Notify for SIGTSTP, Go's runtime keeps its signal handler even when no
// channel receives the signal any more. The runtime then drops the signal, so Ctrl-Z would never
// suspend the shell again. This file therefore changes the action of SIGTSTP with a system call.

// A sigaction is the kernel's struct sigaction. The zero value is the default action.
type sigaction struct {
	handler  uintptr
	flags    uintptr
	restorer uintptr
	mask     uint64
}

var suspendKey struct {
	sync.Mutex
	programs      int        // number of running programs
	runtimeAction *sigaction // SIGTSTP action of Go's runtime, saved while no program runs
}

// catchSuspend makes the Listener l receive SIGTSTP like other signals. As a result, Ctrl-Z does
// not suspend zksh until release is called. If SIGTSTP is ignored, it stays ignored.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	if signal.Ignored(syscall.SIGTSTP) {
		return func() error { return nil }, nil
	}
	suspendKey.Lock()
	defer suspendKey.Unlock()
	if suspendKey.runtimeAction != nil {
		if _, err := setSuspendAction(suspendKey.runtimeAction); err != nil {
			return nil, err
		}
		suspendKey.runtimeAction = nil
	}
	suspendKey.programs++
	return releaseSuspend, nil
}

// releaseSuspend restores the default action of SIGTSTP when the last program has ended.
func releaseSuspend() error {
	suspendKey.Lock()
	defer suspendKey.Unlock()
	if suspendKey.programs--; suspendKey.programs > 0 {
		return nil
	}
	old, err := setSuspendAction(&sigaction{})
	if err == nil {
		suspendKey.runtimeAction = old
	}
	return err
}

// setSuspendAction sets the action of SIGTSTP to now and returns the previous action.
func setSuspendAction(now *sigaction) (before *sigaction, err error) {
	before = &sigaction{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP),
		uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(now.mask), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return before, nil
}
