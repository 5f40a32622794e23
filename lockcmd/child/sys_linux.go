package child

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adoptsOrphans reports whether this process can become the parent of its orphaned descendants.
const adoptsOrphans = true

// now returns the time since the machine was started, in nanoseconds. This clock is the same in all processes.
// It also counts the time during which the machine is asleep, and nobody can set it.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // cannot fail
	return t.Nano()
}

// adoptOrphans makes this process the parent of its orphaned descendants, or stops that.
func adoptOrphans(on bool) {
	value := uintptr(0)
	if on {
		value = 1
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, value, 0, 0, 0) // cannot fail
}

// becomeKeeper prepares a process that Run has started as a keeper.
func becomeKeeper() {
	adoptOrphans(true)
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0) // the name that ps shows is not important
}

// dieWithKeeper makes the kernel kill the program when the keeper dies.
func dieWithKeeper(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// listChildren returns the children of the main thread of this process. That thread is the parent of all orphans,
// and in the keeper, of the program, too. known is false without /proc, or if the kernel lists no children there.
func listChildren() (pids []int, known bool) {
	return readPIDs(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
}

// children returns the children of this process, except t.others. If the kernel does not list them, the keeper
// asks it about each process id from its own to the newest one, and zksh itself knows no children.
func (t *tree) children() (pids []int) {
	pids, known := listChildren()
	if !known && t.others == nil {
		return searchChildren()
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(t.others, pid) })
}

// readPIDs reads the process ids from the files whose names match a pattern. It reports whether it found a file.
func readPIDs(pattern string) (pids []int, found bool) {
	files, _ := filepath.Glob(pattern) // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file) // fails if the thread has ended
		found = found || err == nil
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, found
}

// searchChildren finds the children of this process without /proc.
func searchChildren() (pids []int) {
	first, newest := 2, 1<<22 // the largest process id that Linux allows
	if pid := startNothing(false); pid > os.Getpid() {
		first, newest = os.Getpid()+1, pid // the process ids have not started again from the beginning
	}
	for pid := first; pid <= newest; pid++ {
		if isChild(pid, nil) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startNothing starts a process that ends at once, as the leader of a group or not. It returns the process id,
// or -1. Only the keeper's main thread calls it. To copy the page tables would take long, so the process shares the
// memory, even the stack. It ends by the same call in the loop, which writes the same return addresses there.
func startNothing(leads bool) (pid int) {
	var all, before unix.Sigset_t
	all.Val[0], all.Val[1] = ^all.Val[0], ^all.Val[1] // the kernel has 64 signals
	var r uintptr                                     // 0 in the new process
	call, arg := uintptr(syscall.SYS_CLONE), syscall.CLONE_VM|syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before) // handlers in the new process would change the memory
	for r == 0 {
		r, _, _ = syscall.RawSyscall6(call, arg, 0, 0, 0, 0, 0)
		call, arg = syscall.SYS_EXIT_GROUP, 0
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	if leads {
		_ = syscall.Setpgid(int(r), int(r)) // fails only if there is no process
	}
	return int(r)
}

// isChild reports whether a process is a child of this process that has not been reaped. If info is not nil,
// its field Signo is 0 unless the child has ended.
func isChild(pid int, info *unix.Siginfo) bool {
	return unix.Waitid(unix.P_PID, pid, info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}

// hasEnded reports whether a child has ended. It does not reap the child.
func hasEnded(child int) bool {
	var info unix.Siginfo
	return isChild(child, &info) && info.Signo != 0
}

// describeTree returns a list of the descendants of a process for users: the process id and the name of each. The
// list is empty if /proc is missing, or shows the processes of another namespace.
func describeTree(root int) string {
	const maxNamed = 8
	var found []string
	next := []int{root}
	if self, _ := os.Readlink("/proc/self"); self != strconv.Itoa(os.Getpid()) {
		next = nil
	}
	for ; len(next) > 0; next = next[1:] {
		children, _ := readPIDs(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
		next = append(next, children...)
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", next[0]))
		if err == nil && next[0] != root {
			found = append(found, fmt.Sprintf("%d (%s)", next[0], strings.TrimSuffix(string(name), "\n")))
		}
	}
	if more := len(found) - maxNamed; more > 0 {
		found = append(found[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, ", ")
}

// A sigaction is the kernel's struct sigaction. The zero value is the default action.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// setAction sets the action of a signal unless action is nil, and returns the previous action. It cannot fail.
func setAction(sig syscall.Signal, action *sigaction) (before sigaction) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(before.mask), 0, 0)
	return before
}

// catchSuspend makes l receive SIGTSTP like other signals, unless it is ignored, so that Ctrl-Z does not stop
// zksh: it would lose the session. The returned function restores the default action. Otherwise, Ctrl-Z would
// never suspend the shell again.
//
// Go's runtime sets its action for SIGTSTP only at the first call of signal.Notify, and never restores the
// default. So both actions are set with system calls. Go's action is the same for all signals, such as SIGTERM.
func catchSuspend(l *Listener) (restore func()) {
	const ignore = 1 // SIG_IGN
	before := setAction(syscall.SIGTSTP, nil)
	if before.handler == ignore {
		return func() {}
	}
	signal.Notify(l.signals, syscall.SIGTSTP)
	catch := setAction(syscall.SIGTERM, nil)
	setAction(syscall.SIGTSTP, &catch)
	return func() { setAction(syscall.SIGTSTP, &before) }
}
