package batch

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/shell/exit"
)

// check runs a script in a window of 8 lines, and checks its output and exit status.
func (s *fakeShell) check(t *testing.T, script string, o Options, status int, want ...string) {
	t.Helper()
	o.Window = 8
	printed, got := s.run(t, script, o)
	if diff := cmp.Diff(strings.Join(want, "\n"), printed); diff != "" || got != status {
		t.Errorf("status %d, want %d; printed (+):\n%s", got, status, diff)
	}
}

// Output is in the order of the lines, whichever answer arrives first. A line that runs alone waits
// for all earlier lines.
func TestOrderOfOutput(t *testing.T) {
	newFakeShell(t).check(t, "slow a\nfast b\nfail c\nslow d\nalone e\nfast f\n", Options{}, commands.StatusFailed,
		"note: a starts", "a",
		"note: b starts", "b",
		"note: c starts", "error: script:3: fail: Node does not exist: /x",
		"note: d starts", "d",
		"note: e starts", "e",
		"note: f starts", "f")
}

// In JSON, every line has one answer, even if it fails or its command is unknown.
func TestJSONAnswers(t *testing.T) {
	s := newFakeShell(t)
	s.env.Format = render.JSON
	s.check(t, "slow a\nfail b\n\n# comment\nalone c\nnone\n", Options{}, commands.StatusFailed,
		"note: a starts", `"a"`,
		"note: b starts", `{"error":"Node does not exist: /x","code":"NoNode","status":1,"command":"fail","line":2,"path":"/x"}`, "error: script:2: fail: Node does not exist: /x",
		"note: c starts", `"c"`,
		`{"error":"unknown","code":"Failed","status":1,"command":"none","line":6}`, "error: script:6: none: unknown")
}

// Lines without an answer are reported in one message, which says which lines may have taken effect
// and which were not sent. Earlier lines, and a later line that was answered, print as usual.
func TestCutLines(t *testing.T) {
	newFakeShell(t).check(t, "fast a\ncut b\ncut c\nunsent d\nfast e\n", Options{}, commands.StatusFailed,
		"note: a starts", "a",
		"error: script:2-4: the connection was lost: all lines before line 2 are done; lines 2 to 3 may also be done, in order and without gaps; "+
			"the lines after that, up to line 4, were not sent",
		"note: e starts", "e")
	newFakeShell(t).check(t, "cut a\nfast b\n", Options{}, commands.StatusFailed,
		"note: a starts", "error: script:1: cut: cut", "note: b starts", "b")
}

// Ctrl-C ends the script. One message reports all lines in flight.
func TestInterrupt(t *testing.T) {
	newFakeShell(t).check(t, "fast a\nhang b\nhang c\nfast d\nalone e\n", Options{}, commands.StatusInterrupted,
		"note: a starts", "a", "error: script:2-4: interrupted: all lines before line 2 are done; "+
			"lines 2 to 4 may also be done, in order and without gaps; no later line had been sent")
}

// An event is printed before the answer that the server sent after it.
func TestEventsBeforeAnswers(t *testing.T) {
	newSandboxShell(t, sandbox.Options{}).check(t, "create /a 1\nget -w /a\nset /a 2\nget /a\n", Options{}, commands.StatusOK,
		"Created /a", "1", "event: NodeDataChanged /a", "", "2")
}

// A throttled line runs again, and so do later lines that failed. It does not run again if a later
// line may have taken effect that does not commute with it.
func TestThrottledLineRunsAgain(t *testing.T) {
	newFakeShell(t).check(t, "busy a\nbusy b\nfail c\n", Options{}, commands.StatusFailed,
		"note: a starts", "a", "note: b starts", "b", "note: c starts", "error: script:3: fail: Node does not exist: /x")
	const late = "KeeperErrorCode = Op throttled due to high load for /x (zksh did not send the line again, because the later line 3 may already have taken effect)"
	newFakeShell(t).check(t, "busy a\nbusy b\nfast c\n", Options{}, commands.StatusFailed,
		"note: a starts", "error: script:1: busy: "+late, "note: b starts", "error: script:2: busy: "+late, "note: c starts", "c")
}

// A throttled request is sent again after a later one has taken effect, if the two commute.
func TestThrottledRequestCommutes(t *testing.T) {
	var throttles atomic.Int32
	throttles.Store(1)
	s := newSandboxShell(t, sandbox.Options{Throttle: func(op int32) bool { return op == jute.OpCreate && throttles.Add(-1) >= 0 }})
	s.check(t, "create /a\ncreate /b\n", Options{}, commands.StatusOK, "Created /a", "Created /b")
	fakeShellOf(s.env.Session).check(t, "ls /\n", Options{}, commands.StatusOK, "[a, b, zookeeper]")
}

// A batch ends when its output fails. It prints nothing more, not even for lines in flight.
func TestOutputFails(t *testing.T) {
	s := newFakeShell(t)
	s.flushErr = exit.AsWriteError(errors.New("disk full"))
	s.check(t, "slow a\nalone b\n", Options{}, commands.StatusFailed, "error: cannot write the output: disk full")
}

// After a lock is lost, the next line fails. Without -k, the batch ends.
func TestLostLock(t *testing.T) {
	for _, c := range []struct {
		keepGoing bool
		want      []string
	}{
		{false, []string{"note: a starts", "a", "error: script:2: lock gone"}},
		{true, []string{"note: a starts", "a", "error: script:2: lock gone", "note: b starts", "b"}},
	} {
		s, calls := newFakeShell(t), 0
		s.lost = func() error {
			if calls++; calls != 3 { // the calls are before the first line, after its answer, and before the second line
				return nil
			}
			return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: errors.New("lock gone")}}
		}
		s.check(t, "alone a\nalone b\n", Options{KeepGoing: c.keepGoing}, commands.StatusLockLost, c.want...)
	}
}

// A line of a sourced file does not run if a lock was lost before it. With -k, it does.
func TestLostLockBeforeASourcedLine(t *testing.T) {
	for keepGoing, want := range map[bool]int{false: 0, true: 1} {
		s, ran := newFakeShell(t), 0
		loss := error(&commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: errors.New("lock gone")}})
		s.lost = func() (err error) {
			err, loss = loss, nil
			return err
		}
		b := New(s, s.env, NewTransactions(s.env.Session, func() int { return 1 }, func() {}), "file", Options{KeepGoing: keepGoing})
		err := b.Source(t.Context(), strings.NewReader("fast a\n"), func(context.Context, string) (string, error) {
			ran++
			return "fast", nil
		})
		if ran != want || exit.Status(err) != commands.StatusLockLost || s.text() != "error: file:1: lock gone" {
			t.Errorf("-k %v: ran %d times, %v: %s", keepGoing, ran, err, s.text())
		}
	}
}

// If a line cannot be read, it fails and the batch ends.
func TestUnreadableLine(t *testing.T) {
	newFakeShell(t).check(t, "fast \"a\nb\"\r\rfast c\nfast "+strings.Repeat("x", maxLine)+"\nfast d\n", Options{},
		commands.StatusUsage, "note: a\nb starts", "a\nb", "note: c starts", "c",
		"error: script:5: the line is longer than 4 MiB; it and all later lines were not run")
	newFakeShell(t).check(t, "fast a\nfast 'd\n\n", Options{}, commands.StatusUsage, "note: a starts", "a",
		"error: script:2: unclosed ' at column 6; close it, or write the word as $'…'; lines 2-3 were not run")
	newFakeShell(t).check(t, "fast 'a\nb' c\nfast d\n", Options{StopAtError: true}, commands.StatusUsage,
		`error: script:1: fast: unexpected word "c"; quote a value that contains spaces (see: zksh help fast)`)
}

// With -e, nothing after the first failure happens.
func TestStopAtError(t *testing.T) {
	s := newSandboxShell(t, sandbox.Options{})
	s.check(t, "create /a\ncreate -s /a/n\ncreate /a\ncreate /b\nls /\n", Options{StopAtError: true}, commands.StatusFailed,
		"Created /a", "Created /a/n0000000000", "error: script:3: create: Node already exists: /a")
	s = fakeShellOf(s.env.Session)
	s.check(t, "ls /\nls /a\n", Options{StopAtError: true}, commands.StatusOK, "[a, zookeeper]", "[n0000000000]")
}
