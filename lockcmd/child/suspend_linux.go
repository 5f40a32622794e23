package child

import (
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// After signal.Notify was called for SIGTSTP, Go's runtime keeps its handler even when no
// channel receives the signal any more, and drops the signal. Ctrl-Z would then never suspend
// the shell again. This file therefore sets the signal's action itself.

// sigaction is the kernel's struct sigaction. The zero value restores the default action.
type sigaction struct {
	handler  uintptr
	flags    uintptr
	restorer uintptr
	mask     uint64
}

var suspendKey struct {
	sync.Mutex
	programs      int        // number of running programs
	runtimeAction *sigaction // action of Go's runtime, saved while no program is running
}

// catchSuspend makes zksh receive SIGTSTP like other signals until release is called. An
// ignored signal stays ignored.
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

// setSuspendAction sets the action of SIGTSTP, and returns the previous one.
func setSuspendAction(now *sigaction) (before *sigaction, err error) {
	before = &sigaction{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP),
		uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(now.mask), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return before, nil
}
