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

// dieWithParent returns attributes for a child process with which the kernel kills it when this
// process ends, even if this process is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pauseProcess stops a process with SIGSTOP and waits until all its threads have stopped, which
// takes a while on a busy machine.
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

// stopped reports whether all threads of a process are stopped by a signal.
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("process %d has no threads: %w", pid, cmp.Or(err, os.ErrNotExist))
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
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

// Runs reports whether a process exists and can still execute its own code. It returns false
// for a zombie, for an exiting process, and for a process with a pending SIGKILL, because on a
// busy machine a killed process continues to exist for a while.
func Runs(pid int) bool {
	if killed(pid) { // check this first, because SIGKILL is no longer pending once the process exits
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
	// The fields are: state, parent, process group, session, terminal, its process group, flags.
	if _, err := fmt.Sscan(rest, &state, &other, &other, &other, &other, &other, &flags); err != nil {
		return false
	}
	const exiting = 0x4 // PF_EXITING
	return state != "Z" && state != "X" && flags&exiting == 0
}

// killed reports whether a process does not exist or has a pending SIGKILL, so that it no longer
// executes its own code.
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
