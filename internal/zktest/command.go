package zktest

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// stackTime is the time that programs have to print their stacks before they are killed.
const stackTime = 3 * time.Second

// CommandGroup is like exec.CommandContext. The program and its children are one process group. When
// ctx ends, CommandGroup asks them all for their stacks, and then kills the whole group, whatever
// they do with signals.
//
// Java prints its stacks to standard output. Go, and Python programs that import
// testdata/stacks.py of internal/interop, print them to standard error.
func CommandGroup(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = stackTime // a process that has left the group may still have the pipes
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	return cmd
}

// Command is CommandGroup for tests that run programs of other projects, such as java, python and
// tmux. If ctx ends before the test tb does, for example because the limit of Within is reached, the
// test fails.
func Command(ctx context.Context, tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := CommandGroup(ctx, name, args...)
	var mu sync.Mutex
	ended := false // the test has ended, so that tb.Errorf would panic
	kill := cmd.Cancel
	cmd.Cancel = func() error {
		mu.Lock()
		if cause := context.Cause(ctx); !ended && !errors.Is(cause, context.Canceled) {
			tb.Errorf("killed %s with its children: %v", cmd, cause)
		}
		mu.Unlock()
		return kill()
	}
	tb.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return cmd
}
