//go:build unix && !aix && !solaris

package child

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is everything that the program has started: its process group, and all children of this process with
// their descendants. On Linux, this process becomes the parent of all descendants whose own parent has ended.
//
// Only one goroutine calls the methods of a tree, and only that goroutine reaps children. Therefore, the
// process id of a child cannot belong to another process meanwhile.
type tree struct {
	group  int   // id of the program's process group, which is the process id of the keeper
	others []int // children of this process that the program has not started; nil in the keeper
}

// signal sends a signal to the program's group. The id of the group cannot belong to another group, because it
// is the process id of the keeper, which has not been reaped. It is not an error if the group is empty.
func (t *tree) signal(sig syscall.Signal) error {
	if err := syscall.Kill(-t.group, sig); err != syscall.ESRCH {
		return err
	}
	return nil
}

// signalRest sends a signal to all children outside the program's group, except those in done, and adds them to
// done.
func (t *tree) signalRest(sig syscall.Signal, done map[int]bool) {
	for _, pid := range t.children() {
		target := t.outside(pid)
		if target == 0 || done[pid] {
			continue
		}
		done[pid] = true
		_ = syscall.Kill(target, sig) // killAll notices what cannot be killed
		if sig == syscall.SIGTERM {
			_ = syscall.Kill(target, syscall.SIGCONT) // a stopped process must be able to handle SIGTERM
		}
	}
}

// outside returns the target of signals to a child outside the program's group, or 0 if the child is in that
// group. If the child is in another session, its process group can contain only descendants of the program. Then
// the target is the whole group, so that no member can escape by forking.
func (t *tree) outside(child int) (target int) {
	group, err := syscall.Getpgid(child)
	theirs, _ := unix.Getsid(child) // fails only if Getpgid does
	ours, _ := unix.Getsid(0)       // cannot fail
	switch {
	case err != nil || group == t.group:
		return 0
	case theirs != ours:
		return -group
	}
	return child
}

// killAll kills everything until reap reports that nothing is left. It needs one round for each generation of
// processes: the children of a killed process become children of this process. If there is no progress for
// killPatience, it gives up and returns false.
func (t *tree) killAll(reap func() (progress, empty bool)) bool {
	for end := time.Now().Add(killPatience); time.Now().Before(end); {
		_ = t.signal(syscall.SIGKILL) // an error means that the process remains, which reap reports
		t.signalRest(syscall.SIGKILL, map[int]bool{})
		switch progress, empty := reap(); {
		case empty:
			return true
		case progress:
			end = time.Now().Add(killPatience)
		default:
			time.Sleep(killPause)
		}
	}
	return false
}

const (
	// killPatience is how long killAll waits for the next process to vanish. A killed process runs no more
	// code, but may be waiting for a disk.
	killPatience = time.Second
	killPause    = 100 * time.Microsecond // time between two rounds in which no process has vanished
)

// groupIsEmpty reports whether no process is left in the program's group.
func (t *tree) groupIsEmpty() bool { return syscall.Kill(-t.group, 0) == syscall.ESRCH }
