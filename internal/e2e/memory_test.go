//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var hostile = flag.Bool("hostile", false, "the memory tests run every command against each hostile server, and for longer; set by make hostile")

// maxMemory is the largest memory, in bytes, that a server or file may make zksh use.
const maxMemory = 300 << 20

// An attack is a server's attempt to fill the memory of a command.
type attack struct {
	mode     string // mode of zktest.Endless
	line     string // the command; several lines are run as a script
	says     string // part of the expected error
	env      []string
	succeeds bool // the command succeeds, because the attack does not affect it
	endless  bool // the command may never end by itself; the test stops it
	// hostileOnly is set for attacks that run only with -hostile. Without it, a similar attack runs, or a
	// test of package zkconn or zktree.
	hostileOnly bool
}

// Parts of expected errors.
const (
	tooLong   = "exceeds the limit"
	tooMany   = "too many elements"
	malformed = "malformed reply"
	tooDeep   = "too deep"
)

// attacks lists the attacks, grouped by mode.
var attacks = []attack{
	{mode: "events", line: "ls /", succeeds: true},
	{mode: "events", line: "watch /a", says: "terminated", endless: true, hostileOnly: true},
	{mode: "watched", line: "addWatch /" + strings.Repeat("w", 2000) + "\nwait -w 60s /b\n", says: "sent events faster than zksh could process them"},
	{mode: "below", line: "watch -r /a"},
	{mode: "million", line: "ls /", succeeds: true},
	{mode: "many", line: strings.Repeat("ls /\n", 6), succeeds: true},
	{mode: "data", line: strings.Repeat("get /a\n", 6), says: "the connection was lost"},
	{mode: "wide", line: "ls -R /\nls /\n", endless: true, hostileOnly: true},
	{mode: "many", line: "ls /", succeeds: true, hostileOnly: true},
	{mode: "many", line: "-o json ls /", succeeds: true, hostileOnly: true},
	{mode: "long", line: "-o table ls /", succeeds: true, hostileOnly: true},
	{mode: "over", line: "ls /", says: tooLong},
	{mode: "over", line: "getAcl /a", says: tooLong, hostileOnly: true},
	{mode: "over", line: "stat /a", says: tooLong, hostileOnly: true},
	{mode: "over", line: "set /a b", says: tooLong},
	{mode: "over", line: "whoami", says: tooLong, hostileOnly: true},
	{mode: "claim", line: "ls /"},
	{mode: "empty", line: "ls /", says: tooMany},
	{mode: "empty", line: "getEphemerals", says: tooMany, hostileOnly: true},
	{mode: "short", line: "ls /", says: tooMany, hostileOnly: true},
	{mode: "short", line: "-o json ls -l /", says: tooMany, hostileOnly: true},
	{mode: "acl", line: "getAcl /a", says: tooMany},
	{mode: "identities", line: "whoami", says: tooMany},
	{mode: "data", line: "get /a", says: tooLong},
	{mode: "data", line: "-o json get /a", says: tooLong, hostileOnly: true},
	{mode: "slash", line: "ls /", says: malformed},
	{mode: "dots", line: "ls -R /", says: malformed},
	{mode: "nameless", line: "tree /", says: malformed},
	{mode: "slash", line: "deleteall -y /a", says: malformed, hostileOnly: true},
	{mode: "deep", line: "ls -R /", says: tooDeep},
	{mode: "deep", line: "deleteall -y /a", says: tooDeep, hostileOnly: true},
	{mode: "deep", line: "tree /", hostileOnly: true},
	{mode: "deep", line: "du /", hostileOnly: true},
	{mode: "deep", line: "find / -name x", hostileOnly: true},
	{mode: "deep", line: "export -R / -", hostileOnly: true},
	{mode: "deep", line: "cp -R --overwrite /a /b", hostileOnly: true},
	{mode: "deep", line: "mv /a /b", hostileOnly: true},
	{mode: "deep", line: "ls -R -s /", hostileOnly: true},
	{mode: "deep", line: "setAcl -R /a world:anyone:r", hostileOnly: true},
	{mode: "deep", line: "diff /a /b", hostileOnly: true},
	{mode: "deep", line: "watch -r /", hostileOnly: true},
	{mode: "deep", line: "mirror -y /a /b", hostileOnly: true},
	{mode: "heavy", line: "du /", says: tooDeep},
	{mode: "wide", line: "ls -R /", endless: true},
	{mode: "wide", line: "tree /", hostileOnly: true},
	{mode: "wide", line: "du /", hostileOnly: true},
	{mode: "wide", line: "find / -name x", hostileOnly: true},
	{mode: "wide", line: "export -R / -", hostileOnly: true},
	{mode: "wide", line: "deleteall -y /a", hostileOnly: true},
	{mode: "wide", line: "watch -r /", hostileOnly: true},
	{mode: "wide", line: "diff /a /b", hostileOnly: true},
	{mode: "wide", line: "locks -R /", hostileOnly: true},
	{mode: "crowded", line: "du /", hostileOnly: true},
	{mode: "crowded", line: "diff /a /b", hostileOnly: true},
	{mode: "words", line: "session", says: "exceeds the limit of 16 MiB", succeeds: true},
	{mode: "words", line: "servers", hostileOnly: true},
	{mode: "words", line: "locks -R /", says: "exceeds the limit of 16 MiB", succeeds: true, hostileOnly: true},
}

// No hostile server fills zksh's memory. Each command fails, except that an endless tree may be
// printed endlessly.
func TestHostileServersFillNoMemory(t *testing.T) {
	if zktest.UnderRace() {
		t.Skip("the race detector takes many times the memory")
	}
	for _, f := range attacks {
		t.Run(f.mode+" "+f.line[:min(len(f.line), 30)], func(t *testing.T) {
			if f.hostileOnly && !*hostile {
				t.Skip("make hostile runs it")
			}
			if f.mode != "words" { // zksh waits only seconds for a word, so these run before the others
				t.Parallel()
			}
			timeout := "10000"
			if f.succeeds { // a busy machine needs time for so much data, and nothing waits for the end of the session
				timeout = "100000"
			}
			args := []string{"-server", zktest.Endless(t, f.mode), "-timeout", timeout}
			if !strings.Contains(f.line, "\n") {
				args = append(args, strings.Fields(f.line)...)
			}
			m := measure(t, f, args...)
			// zksh waits only seconds for a word, which may be too short on a busy machine.
			for try := 1; try < 5 && f.mode == "words" && !strings.Contains(m.err, f.says); try++ {
				m = measure(t, f, args...)
			}
			t.Logf("%d MiB, status %d, %v, %d bytes of output: %s", m.peak>>20, m.status, m.took.Round(time.Millisecond), m.printed, m.err)
			m.check(t, f)
		})
	}
}

// measured holds the result of a run of the program: its output, its exit status, and the
// time and memory that it used.
type measured struct {
	status  int
	err     string // the end of its error output
	printed int    // bytes of output
	peak    int64  // bytes of memory
	took    time.Duration
}

func (m measured) check(t *testing.T, f attack) {
	t.Helper()
	if m.peak > maxMemory {
		t.Errorf("it took %d MiB", m.peak>>20)
	}
	if (m.status == 0) != f.succeeds || !strings.Contains(m.err, f.says) {
		t.Errorf("status %d, and it said %q, not %q", m.status, m.err, f.says)
	}
}

// measure runs the program until it ends or, for an endless attack, for a few seconds.
func measure(t *testing.T, f attack, args ...string) (m measured) {
	t.Helper()
	patience := 5 * time.Minute
	if f.endless {
		patience = 3 * time.Second
	}
	if f.endless && *hostile {
		patience = 15 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "zksh", args...)
	cmd.Env = append(homeEnv(t.TempDir()), f.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if strings.Contains(f.line, "\n") {
		cmd.Stdin = strings.NewReader(f.line)
	}
	var said tailBuffer
	var printed byteCounter
	cmd.Stdout, cmd.Stderr = &printed, &said
	begun := time.Now()
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if ctx.Err() != nil && !f.endless {
		t.Errorf("it did not end within %v", patience)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return measured{cmd.ProcessState.ExitCode(), said.String(), int(printed), usage.Maxrss << 10, time.Since(begun)}
}

// A byteCounter counts the bytes that are written to it.
type byteCounter int

var _ io.Writer = new(byteCounter)

func (s *byteCounter) Write(p []byte) (int, error) { *s += byteCounter(len(p)); return len(p), nil }

// A tailBuffer keeps the last part of the text that is written to it.
type tailBuffer struct{ bytes.Buffer }

func (l *tailBuffer) Write(p []byte) (int, error) {
	if l.Len() > 1<<16 {
		l.Reset()
	}
	return l.Buffer.Write(p)
}
