package zktest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dieWithParent returns process attributes that make the kernel kill a child process when this
// process ends, even if this process is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// ownGroup is like dieWithParent. The child process also becomes the leader of a new process group.
// The kernel kills it when the thread that started it ends. Go keeps such a thread, unless a
// goroutine that is locked to it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// killGroup sends SIGQUIT to all processes in the group of leader, waits up to stackTime until
// they have ended, and kills the others.
func killGroup(leader *os.Process) error {
	if err := syscall.Kill(-leader.Pid, syscall.SIGQUIT); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	exists := func() bool { return syscall.Kill(-leader.Pid, 0) == nil }
	for end := time.Now().Add(stackTime); exists() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if err := syscall.Kill(-leader.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil // all have ended
}

// pauseProcess sends SIGSTOP to a process and waits until all its threads have stopped. On a busy
// machine, this takes a while.
func pauseProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		stopped, err := stopped(p.Pid)
		if stopped || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the process did not stop within %v after SIGSTOP", Patience)
		}
	}
}

// stopped reports whether all threads of the process are stopped by a signal.
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("process %d has no threads: %w", pid, cmp.Or(err, os.ErrNotExist))
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // this thread has just ended
		}
		if err != nil {
			return false, err
		}
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			return false, nil
		}
	}
	return true, nil
}

// Runs reports whether a process exists and can still execute its own code. It returns false for
// a zombie, an exiting process, and a process with a pending SIGKILL. On a busy machine, a killed
// process can remain in these states for a while.
func Runs(pid int) bool {
	// Check for SIGKILL first. Once the process exits, the signal is no longer pending.
	if killed(pid) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	var state string
	var flags uint64
	var other int
	// Read the fields of /proc/PID/stat: state, parent, process group, session, terminal, the
	// terminal's process group, and flags.
	if _, err := fmt.Sscan(rest, &state, &other, &other, &other, &other, &other, &flags); err != nil {
		return false
	}
	const exiting = 0x4 // the kernel's flag PF_EXITING
	return state != "Z" && state != "X" && flags&exiting == 0
}

// killed reports whether a process does not exist or has a pending SIGKILL. Such a process no
// longer executes its own code.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true // the process does not exist
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return false
}

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
