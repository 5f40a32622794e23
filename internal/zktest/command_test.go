//go:build linux

package zktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A failures records what a test would report.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// When the limit is reached, all processes of the program are killed, also those that ignore
// signals, after they were asked for their stacks.
func TestCommandKillsTheGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(Within(t))
	f := &failures{TB: t}
	// The shell and its child ignore all signals that can be ignored. The child keeps the pipe open.
	cmd := Command(ctx, f, "sh", "-c", `trap '' INT TERM HUP; trap 'echo stacks' QUIT
		(trap '' QUIT; exec sleep 1000) & echo $!; while :; do wait; done`)
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	child := 0
	if _, err := fmt.Sscan(lines.Text(), &child); err != nil || !Runs(child) {
		t.Fatalf("%q: %v", lines.Text(), err)
	}
	cancel(errors.New("the limit is reached"))
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text())
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the shell ended as if nothing had happened")
	}
	if rest.String() != "stacks" {
		t.Errorf("after SIGQUIT the shell prints %q", rest.String())
	}
	Eventually(t, "the child is killed", func() bool { return !Runs(child) })
	if len(f.texts) != 1 || !strings.Contains(f.texts[0], "the limit is reached") {
		t.Errorf("the test reports %q", f.texts)
	}
}

// A program that is still running at the end of its test is killed, and the test passes.
func TestCommandEndsWithTheTest(t *testing.T) {
	t.Parallel()
	f := &failures{TB: t}
	pid := 0
	t.Run("program", func(t *testing.T) {
		f.TB = t
		cmd := Command(Within(t), f, "sleep", "1000")
		Must(t, cmd.Start())
		pid = cmd.Process.Pid
	})
	Eventually(t, "the program is killed", func() bool { return !Runs(pid) })
	if len(f.texts) > 0 {
		t.Errorf("the test reports %q", f.texts)
	}
}
