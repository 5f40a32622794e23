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

// dieWithParent makes the kernel kill the child when this process ends in any way.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// pauseProcess stops a process and waits until all its threads have stopped. On a busy
// machine this takes a while.
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

// Runs reports whether a process exists and still executes code. It returns false for a
// zombie, for a process that is exiting, and for one with a pending SIGKILL: on a busy machine,
// a killed process exists for a while.
func Runs(pid int) bool {
	if killed(pid) { // checked first, because SIGKILL is no longer pending once the process exits
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

// killed reports whether a process has a pending SIGKILL, and so executes no more of its
// own code, or does not exist.
func killed(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true // does not exist
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
