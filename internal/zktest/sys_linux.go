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

// dieWithParent has the child killed when this process ends in any way.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pauseProcess stops a process and returns once all its threads have stopped,
// which on a busy machine is some time after the signal.
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

// stopped reports whether each thread of a process has stopped.
func stopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("process %d has no threads: %w", pid, cmp.Or(err, os.ErrNotExist))
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
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

// Runs reports whether a process still does something: it is there, it has not ended, and
// is not about to. A busy machine lists what was killed for a while.
func Runs(pid int) bool {
	if killed(pid) { // asked first: once it is over, nothing says so any more
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
	// state, ppid, pgrp, session, tty, its group, flags
	if _, err := fmt.Sscan(rest, &state, &other, &other, &other, &other, &other, &flags); err != nil {
		return false
	}
	const exiting = 0x4 // PF_EXITING
	return state != "Z" && state != "X" && flags&exiting == 0
}

// killed reports whether a KILL is under way to a process, which runs nothing of its own
// any more.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true // gone since
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
