//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zksh/zksh/internal/zktest"
)

// farDeadline returns a deadline that no test reaches.
func farDeadline() time.Time { return time.Now().Add(time.Hour) }

// A script is a shell script that Run runs, with its output and its alerts.
type script struct {
	t       *testing.T
	spec    Spec
	stop    chan time.Time
	status  int
	err     error
	wantErr bool // the test checks err itself
	ended   chan struct{}

	mu     sync.Mutex
	alerts []string
}

func newScript(t *testing.T, text string) *script {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	zktest.Must(t, err)
	t.Cleanup(func() { out.Close() })
	s := &script{t: t, stop: make(chan time.Time, 1), ended: make(chan struct{})}
	s.spec = Spec{Argv: []string{"sh", "-c", text}, Out: out, Err: out, Grace: time.Hour, Alert: s.alert, Signals: Listen()}
	s.spec.Left = func() time.Duration { return 24 * time.Hour }
	t.Cleanup(s.spec.Signals.Close)
	return s
}

func (s *script) alert(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts = append(s.alerts, text)
}

func (s *script) alertText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.alerts, "\n")
}

func (s *script) start() *script {
	go func() { // ends with the script; wait waits for it
		defer close(s.ended)
		if s.status, s.err = Run(s.spec, s.stop); s.err != nil && !s.wantErr {
			s.t.Error(s.err)
		}
	}()
	s.t.Cleanup(func() {
		select {
		case <-s.ended:
		case s.stop <- time.Now(): // the test has failed
			<-s.ended
		}
	})
	return s
}

func (s *script) wait() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(zktest.Patience):
		s.t.Fatalf("the program has not ended; it printed %q", s.printed())
	}
	return s.status
}

func (s *script) printed() string {
	s.t.Helper()
	b, err := os.ReadFile(s.spec.Out.Name())
	zktest.Must(s.t, err)
	return string(b)
}

// waitForLines waits until the script has printed so many complete lines.
func (s *script) waitForLines(lines int) []string {
	s.t.Helper()
	zktest.Eventually(s.t, fmt.Sprintf("%d lines of output", lines), func() bool { return strings.Count(s.printed(), "\n") >= lines })
	return strings.Split(s.printed(), "\n")[:lines]
}

// waitForPIDs waits for n lines that contain process ids.
func (s *script) waitForPIDs(n int) []int {
	s.t.Helper()
	var pids []int
	for _, l := range s.waitForLines(n) {
		pid, err := strconv.Atoi(l)
		zktest.Must(s.t, err)
		pids = append(pids, pid)
		s.t.Cleanup(func() {
			if zktest.Runs(pid) { // the test has failed
				_ = syscall.Kill(pid, syscall.SIGKILL) // may have ended just now
			}
		})
	}
	return pids
}

func TestChildStatus(t *testing.T) {
	for text, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143,
		`test "$X" = "a b" && test "$PATH" = new`: 0,
		"read x; test $? = 1":                     0, // no standard input
		"test $(ps -o pgid= $$) != $$":            0, // no leader of a group, so it may call setsid
		"kill -9 0":                               137,
	} {
		s := newScript(t, text)
		s.spec.Argv[0] = "/bin/sh"
		if strings.Contains(text, "$X") {
			s.spec.Env = []string{"X=a b", "PATH=new"}
		}
		if got := s.start().wait(); got != want {
			t.Errorf("%s: status %d, want %d; it printed %q", text, got, want, s.printed())
		}
	}
}

// A signal that arrives between the request for the lock and the start of the program
// prevents the start.
func TestSignalBeforeTheStart(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP} {
		s := newScript(t, "echo started")
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, sig} {
			zktest.Must(t, syscall.Kill(os.Getpid(), sig))
		}
		zktest.Eventually(t, "the signals", func() bool { return len(s.spec.Signals.signals) == 2 })
		status, err := Run(s.spec, s.stop)
		if want := fmt.Sprintf("sh was not started, because zksh received the signal %q first", sig); status != 128+int(sig) || err == nil || err.Error() != want {
			t.Errorf("%s: status %d, %v; want %q", sig, status, err, want)
		}
		if s.printed() != "" {
			t.Errorf("%s: it was started: %q", sig, s.printed())
		}
	}
}

// SIGUSR1 before the start is dropped, and the program starts.
func TestUserSignalBeforeTheStart(t *testing.T) {
	s := newScript(t, "exit 4")
	zktest.Must(t, syscall.Kill(os.Getpid(), syscall.SIGUSR1))
	zktest.Eventually(t, "the signal", func() bool { return len(s.spec.Signals.signals) == 1 })
	if got := s.start().wait(); got != 4 {
		t.Errorf("status %d", got)
	}
}

func TestChildThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		zktest.Must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	for name, notFound := range map[string]bool{
		"no-such-program":          true,
		dir + "/no-such-file":      true,
		dir:                        false,
		write("plain", "x", 0o600): false,
		write("lost", "#!/no/such/interpreter\n", 0o700): true,
	} {
		listener := Listen()
		left := func() time.Duration { return time.Hour }
		spec := Spec{Argv: []string{name}, Left: left, Signals: listener, Alert: func(s string) { t.Error(s) }}
		_, err := Run(spec, nil)
		listener.Close()
		var start *StartError
		if !errors.As(err, &start) || start.NotFound() != notFound || !strings.HasPrefix(err.Error(), "cannot run "+name+": ") {
			t.Errorf("%s: %v; want NotFound %t", name, err, notFound)
		}
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	const text = `trap "echo got; exit 9" SIG; sh -c 'trap "echo got; exit" SIG; echo ready; while :; do sleep 0.05; done'`
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	} {
		s := newScript(t, strings.ReplaceAll(text, "SIG", name)).start()
		s.waitForLines(1)
		zktest.Must(t, syscall.Kill(os.Getpid(), sig))
		if got := s.wait(); got != 9 || strings.Count(s.printed(), "got") != 2 {
			t.Errorf("%s: status %d, printed %q", name, got, s.printed())
		}
	}
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	zktest.Must(t, err)
	defer out.Close()
	cmd := helper(t, "trap 'exit 9' HUP; trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done")
	cmd.Args = []string{"sh", "-c", `trap "" HUP; exec "$0"`, cmd.Path}
	cmd.Path, err = exec.LookPath("sh")
	zktest.Must(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	zktest.Must(t, cmd.Start())
	s := &script{t: t, spec: Spec{Out: out}}
	s.waitForLines(1)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		zktest.Must(t, cmd.Process.Signal(sig))
	}
	zktest.Check(t, cmd.Wait())
	if !strings.Contains(s.printed(), "helper: status 3, <nil>") {
		t.Errorf("it printed %q", s.printed())
	}
}

func TestStopReachesTheGroup(t *testing.T) {
	for name, text := range map[string]string{
		"all obey":                "sleep 1000 & echo $!; echo $$; wait",
		"the grandchild does not": `sh -c 'trap "" TERM; echo $$; exec sleep 1000' & echo $$; wait`,
	} {
		s := newScript(t, text)
		s.spec.Grace = 300 * time.Millisecond
		pids := s.start().waitForPIDs(2)
		s.stop <- farDeadline()
		if got := s.wait(); got != 143 {
			t.Errorf("%s: status %d", name, got)
		}
		for _, pid := range pids {
			if zktest.Runs(pid) {
				t.Errorf("%s: process %d of %v goes on", name, pid, pids)
			}
		}
	}
}

func TestDaemonIsLeftAlone(t *testing.T) {
	s := newScript(t, "sleep 1000 & echo $!")
	s.spec.Leave = true
	daemon := s.start().waitForPIDs(1)[0]
	if got := s.wait(); got != 0 || !zktest.Runs(daemon) || !strings.Contains(s.alertText(), "run on without the lock: ") {
		t.Errorf("status %d, daemon alive: %t, alerts %q", got, zktest.Runs(daemon), s.alertText())
	}
}

func TestTermIsIgnored(t *testing.T) {
	for name, times := range map[string]func(short time.Duration) (deadline, grace time.Duration){
		"the deadline is sooner": func(short time.Duration) (_, _ time.Duration) { return short, time.Hour },
		"the grace is sooner":    func(short time.Duration) (_, _ time.Duration) { return time.Hour, short },
	} {
		heeds := func(short time.Duration) bool {
			deadline, grace := times(short)
			s := newScript(t, `trap "echo term" TERM; echo $$; while :; do sleep 0.02; done`)
			s.spec.Grace = grace
			pid := s.start().waitForPIDs(1)[0]
			ordered := time.Now()
			s.stop <- ordered.Add(deadline)
			got := s.wait()
			if took := time.Since(ordered); got != 137 || took < short || zktest.Runs(pid) {
				t.Errorf("%s: status %d after %s, alive: %t", name, got, took, zktest.Runs(pid))
			}
			return strings.Contains(s.printed(), "term\n")
		}
		// On a machine that stands still for so long, both signals arrive at once.
		short := 300 * time.Millisecond
		for !heeds(short) {
			if short *= 4; short > 20*time.Second {
				t.Fatalf("%s: no TERM came first", name)
			}
		}
	}
}

// Of two deadlines the earlier one counts.
func TestStopTwice(t *testing.T) {
	s := newScript(t, `trap "" TERM; echo $$; while :; do sleep 0.02; done`).start()
	s.waitForLines(1)
	s.stop <- farDeadline()
	s.stop <- time.Now()
	if got := s.wait(); got != 137 {
		t.Errorf("status %d", got)
	}
}

func TestStopRacesTheEnd(t *testing.T) {
	for i := range 30 {
		s := newScript(t, "sleep 0.01").start()
		time.Sleep(time.Duration(i) * time.Millisecond) // any moment is correct
		s.stop <- farDeadline()
		if got := s.wait(); got != 0 && got != 143 {
			t.Errorf("round %d: status %d", i, got)
		}
	}
}

// Without a terminal, a stopped program stays stopped, and keeps the lock until it is continued.
func TestStoppedChildIsNotEnded(t *testing.T) {
	s := newScript(t, "echo $$; kill -STOP $$; exit 4").start()
	pid := s.waitForPIDs(1)[0]
	s.waitUntilStopped()
	zktest.Must(t, syscall.Kill(pid, syscall.SIGCONT))
	if got := s.wait(); got != 4 {
		t.Errorf("status %d, alerts %q", got, s.alertText())
	}
}

// TERM and HUP also end a stopped program.
func TestStoppedChildEnds(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		s := newScript(t, "echo $$; kill -STOP $$; exit 4").start()
		s.waitForPIDs(1)
		s.waitUntilStopped()
		zktest.Must(t, syscall.Kill(os.Getpid(), sig))
		if got := s.wait(); got != 128+int(sig) {
			t.Errorf("%s: status %d", sig, got)
		}
	}
}

func (s *script) waitUntilStopped() {
	s.t.Helper()
	zktest.Eventually(s.t, "the alert", func() bool {
		return strings.Contains(s.alertText(), "sh was stopped; zksh still holds the lock")
	})
}

// Ctrl-Z that reaches zksh, because the program does not have the terminal, stops neither
// zksh nor the program.
func TestSuspendIsRefused(t *testing.T) {
	s := newScript(t, "echo ready; exec sleep 1000").start()
	s.waitForLines(1)
	zktest.Must(t, syscall.Kill(os.Getpid(), syscall.SIGTSTP))
	zktest.Eventually(t, "the alert", func() bool { return strings.Contains(s.alertText(), "not suspended") })
	s.stop <- time.Now()
	s.wait()
}

func TestDeathKillsTheChild(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can do that")
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	zktest.Must(t, err)
	defer out.Close()
	cmd := helper(t, "echo $$; exec sleep 1000")
	cmd.Stdout = out
	zktest.Must(t, cmd.Start())
	s := &script{t: t, spec: Spec{Out: out}}
	pid := s.waitForPIDs(1)[0]
	if !zktest.Runs(pid) {
		t.Fatal("the child is not there")
	}
	zktest.Must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the helper ended by itself")
	}
	zktest.Eventually(t, "the child's death", func() bool { return !zktest.Runs(pid) })
}
