package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// setProcessName sets the name that ps shows. It is not important, so errors are ignored.
func setProcessName(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// keepsEmptyGroups reports whether a process group exists as long as a member of it has not been reaped. Then
// the keeper can leave its group before it starts the program there.
const keepsEmptyGroups = true

// programAttr returns attributes that put the program into a group, and make the kernel kill the program when
// the keeper dies.
func programAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

func duplicateTo(from, fd int) error { return unix.Dup3(from, fd, 0) }

// inOtherSession reports whether a process belongs to another session than this process.
func inOtherSession(pid int) bool {
	theirs, err := unix.Getsid(pid)
	ours, _ := unix.Getsid(0) // cannot fail
	return err == nil && theirs != ours
}

// children returns the children of the main thread of this process, except t.others. That thread is the parent
// of all orphans, and in the keeper, of the program, too.
//
// Without /proc, or with a kernel that does not list children there, the keeper asks the kernel about each
// process id from its own to the newest one. zksh itself then knows no children.
func (t *tree) children() (pids []int) {
	list, err := readPIDs(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil && t.others == nil {
		return searchChildren()
	}
	return slices.DeleteFunc(list, func(pid int) bool { return t.others[pid] })
}

// readPIDs reads process ids from a file.
func readPIDs(file string) (pids []int, err error) {
	text, err := os.ReadFile(file)
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// searchChildren finds the children of this process without /proc.
func searchChildren() (pids []int) {
	first, newest := 2, 1<<22 // the largest process id that Linux allows
	if pid := startNothing(); pid > os.Getpid() {
		first, newest = os.Getpid()+1, pid // the process ids have not started again from the beginning
	}
	for pid := first; pid <= newest; pid++ {
		if isChild(pid, nil) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startNothing starts a process that ends at once, and returns its process id, or 0. Unlike syscall.ForkExec,
// it does not wait until the new process runs, because a Ctrl-Z could have stopped that process.
func startNothing() (pid int) {
	r, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	for r == 0 { // in the new process
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
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

// executable returns the path of the zksh executable, with which Run starts the keeper. The path refers to the
// executable of this process, even if an update has replaced the file. Without /proc, it is the path with which
// zksh was started.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err == nil {
		return self, nil
	}
	path, err := exec.LookPath(os.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", err
	}
	return filepath.Abs(path)
}

// maxNamed is the maximum number of processes that describeTree names.
const maxNamed = 8

// describeTree returns a list of the descendants of a process for users: the process id and the name of each.
// The list is empty if there are none, or if there is no /proc.
func describeTree(root int) string {
	var found []string
	for next := []int{root}; len(next) > 0; next = next[1:] {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0])) // the pattern is valid
		for _, file := range files {
			children, _ := readPIDs(file) // fails if the thread has ended
			next = append(next, children...)
		}
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

// setAction sets the action of a signal unless action is nil, and returns the previous action.
func setAction(sig syscall.Signal, action *sigaction) (before sigaction, err error) {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(before.mask), 0, 0)
	if errno != 0 {
		return before, errno
	}
	return before, nil
}

// isIgnored reports whether a signal is ignored. Go's runtime keeps HUP, INT, TSTP, TTIN, TTOU and CONT ignored
// if they were ignored at the start. It begins to handle all others before any other code runs.
func isIgnored(sig syscall.Signal) bool {
	const ignore = 1 // SIG_IGN
	action, err := setAction(sig, nil)
	return err == nil && action.handler == ignore
}

// suspendAction is the SIGTSTP action of Go's runtime, saved while no program runs.
var suspendAction *sigaction

// enter prepares this process for running a program. If the keeper is killed, this process becomes the parent
// of the keeper's children. The Listener l receives SIGTSTP like other signals, unless it is ignored, so that
// Ctrl-Z does not stop zksh: it would lose the session.
//
// After a call of signal.Notify for SIGTSTP, Go's runtime keeps its signal handler even when no channel
// receives the signal any more. Then Ctrl-Z would never suspend the shell again. So enter and leave change the
// action of SIGTSTP with a system call.
func enter(l *Listener) error {
	adoptOrphans(true)
	if isIgnored(syscall.SIGTSTP) {
		return nil
	}
	l.add(syscall.SIGTSTP)
	if suspendAction == nil {
		return nil
	}
	_, err := setAction(syscall.SIGTSTP, suspendAction)
	return err
}

// leave undoes enter.
func leave() error {
	adoptOrphans(false)
	if isIgnored(syscall.SIGTSTP) {
		return nil
	}
	action, err := setAction(syscall.SIGTSTP, &sigaction{})
	suspendAction = &action
	return err
}
