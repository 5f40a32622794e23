package child

import (
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Once somebody was notified of SIGTSTP the runtime keeps its handler when nobody is any
// more, and drops the signal: Ctrl-Z would never again suspend the shell. So the system is
// told here what becomes of it.

// sigaction is the kernel's, for SIGTSTP; the zero value is its default.
type sigaction struct {
	handler  uintptr
	flags    uintptr
	restorer uintptr
	mask     uint64
}

var suspendKey struct {
	sync.Mutex
	takers int
	taken  *sigaction // the runtime's, while nobody takes the signal
}

// takeStops has SIGTSTP be a signal like others for as long as a program runs, and no
// longer. One that is ignored stays so.
func catchSuspend(l *Listener) (release func() error, err error) {
	l.add(syscall.SIGTSTP)
	if signal.Ignored(syscall.SIGTSTP) {
		return func() error { return nil }, nil
	}
	suspendKey.Lock()
	defer suspendKey.Unlock()
	if suspendKey.taken != nil {
		if _, err := setSuspendAction(suspendKey.taken); err != nil {
			return nil, err
		}
		suspendKey.taken = nil
	}
	suspendKey.takers++
	return releaseSuspend, nil
}

func releaseSuspend() error {
	suspendKey.Lock()
	defer suspendKey.Unlock()
	if suspendKey.takers--; suspendKey.takers > 0 {
		return nil
	}
	old, err := setSuspendAction(&sigaction{})
	if err == nil {
		suspendKey.taken = old
	}
	return err
}

// swapStop says what becomes of SIGTSTP, and returns what did.
func setSuspendAction(now *sigaction) (before *sigaction, err error) {
	before = &sigaction{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP),
		uintptr(unsafe.Pointer(now)), uintptr(unsafe.Pointer(before)), unsafe.Sizeof(now.mask), 0, 0)
	if errno != 0 {
		return nil, errno
	}
	return before, nil
}
