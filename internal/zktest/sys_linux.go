package zktest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			return errors.New("the process does not stop")
		}
	}
}

// stopped tells whether each thread of a process has stopped.
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

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
