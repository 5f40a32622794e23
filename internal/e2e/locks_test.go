//go:build unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// rival is another client that wants the same lock, on a connection that no
// fault of the test touches.
type rival struct{ *zkconn.Session }

type rivalConn struct{ s *zkconn.Session }

// Session is part of zklock.Conn.
func (c rivalConn) Session(ctx context.Context) (zklock.Session, error) { return c.s.Ensemble().Pin(ctx) }

func newRival(t *testing.T, server string) rival {
	t.Helper()
	return rival{zksession.Open(t, zkconn.Config{Servers: server, Timeout: 10 * time.Second})}
}

// lock waits for the lock until a generous end.
func (r rival) lock(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*zktest.Patience)
	defer cancel()
	if _, err := zklock.New(rivalConn{r.Session}, path, zklock.Options{}).Lock(ctx); err != nil {
		t.Fatal(err)
	}
}

// guarded is a zksh that holds a lock while its command runs.
type guarded struct {
	cmd   *exec.Cmd
	errs  strings.Builder
	child int // pid of the command
}

// guard starts one and returns when its command runs: traps are set before sh
// writes its pid, and script runs after that.
func guard(t *testing.T, server, traps, script string, flags ...string) *guarded {
	t.Helper()
	return startGuard(t, nil, server, traps, script, flags...)
}

// startGuard is guard with a standard error of its own.
func startGuard(t *testing.T, errs io.Writer, server, traps, script string, flags ...string) *guarded {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	args := append([]string{"-server", server, "-timeout", "10000", "lock"}, flags...)
	args = append(args, "/l", "--", "sh", "-c", traps+"\necho $$ > "+file+".new; mv "+file+".new "+file+"; "+script)
	g := &guarded{cmd: exec.Command("zksh", args...)}
	g.cmd.Env, g.cmd.Stderr = homeEnv(t.TempDir()), &g.errs
	if errs != nil {
		g.cmd.Stderr = errs
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.cmd.Process.Kill() }) // it has ended, or the test has failed
	zktest.Eventually(t, "the command runs", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		g.child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return g
}

// A command under a lock is gone before anybody else can hold the lock, though
// it ignores TERM, when no server can be heard of.
func TestCommandEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), place(t)
	proxy := zktest.NewProxy(t, server)
	g := guard(t, proxy.Addr()+chroot, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	proxy.Hold(true)
	newRival(t, server+chroot).lock(t, "/l")
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	proxy.Hold(false)
	wantExit(t, g.cmd, 74)
	for _, want := range []string{"no connection", "; zksh terminated sh"} {
		if !strings.Contains(g.errs.String(), want) {
			t.Errorf("%q is not told: %s", want, g.errs.String())
		}
	}
}

// Nobody reads what is told: the command ends in time all the same.
func TestBlockedTerminalKeepsNoCommandAlive(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), place(t)
	proxy := zktest.NewProxy(t, server)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fill(t, w)
	g := startGuard(t, w, proxy.Addr()+chroot, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	w.Close()
	proxy.Hold(true)
	newRival(t, server+chroot).lock(t, "/l")
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	proxy.Hold(false)
	go func() { _, _ = io.Copy(io.Discard, r) }() // ends with zksh
	wantExit(t, g.cmd, 74)
}

// fill writes into a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 4096)); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A connection that comes back in time costs nothing.
func TestCommandOutlivesAShortOutage(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), place(t)
	proxy := zktest.NewProxy(t, server)
	done := filepath.Join(t.TempDir(), "done")
	g := guard(t, proxy.Addr()+chroot, "", "until [ -e "+done+" ]; do sleep 0.1; done; exit 5")
	proxy.Cut()
	r := newRival(t, server+chroot)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := zklock.New(rivalConn{r.Session}, "/l", zklock.Options{}).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another client got the lock: %v", err)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.cmd, 5)
}

// The end of zksh without a chance to clean up takes the command with it.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + place(t)
	g := guard(t, server, "", "while :; do sleep 0.1; done")
	if err := g.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = g.cmd.Wait() // killed, as was asked for
	zktest.Eventually(t, "the command is gone", func() bool { return !zktest.Runs(g.child) })
	newRival(t, server).lock(t, "/l")
}

// A holder that was stopped for longer than its session lasts ends its command
// as soon as it wakes up.
func TestHolderAsleep(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + place(t)
	g := guard(t, server, "", "while :; do sleep 0.1; done", "-t", "1")
	if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	newRival(t, server).lock(t, "/l")
	if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.cmd, 74)
	if zktest.Runs(g.child) {
		t.Error("the command still runs")
	}
}

// Signals go to the command; its end decides the status, and the lock is free.
func TestSignalsGoToTheCommand(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + place(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		g := guard(t, server, "trap 'exit 42' INT TERM HUP QUIT", "while :; do sleep 0.1; done")
		if err := g.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		wantExit(t, g.cmd, 42)
		if got := at(t, server, "ls", "/l"); got != "[]\n" {
			t.Errorf("%v: left behind: %s", sig, got)
		}
	}
}

// A signal while waiting gives the place in the queue up.
func TestSignalWhileWaitingForALock(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + place(t)
	g := guard(t, server, "", "while :; do sleep 0.1; done")
	for sig, want := range signalStatuses {
		waiter := exec.Command("zksh", "-server", server, "lock", "/l", "--", "true")
		waiter.Env = homeEnv(t.TempDir())
		var errs strings.Builder
		waiter.Stderr = &errs
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		zktest.Eventually(t, "two are in the queue", func() bool { return strings.Count(at(t, server, "ls", "/l"), "lock-") == 2 })
		if err := waiter.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		wantExit(t, waiter, want)
		if n := strings.Count(at(t, server, "ls", "/l"), "lock-"); n != 1 {
			t.Errorf("%v: %d in the queue, want the holder alone", sig, n)
		}
	}
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.cmd, 143)
}

// A lock that is lost between two lines of a batch ends it, unless -k is given.
func TestLossEndsABatch(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-q", "-k"} {
		server, dir := zktest.Shared(t).Addr()+place(t), t.TempDir()
		// Standard output and error are files, which can be read meanwhile.
		cmd := exec.Command("sh", "-c", "exec zksh $0 -server $1 > out 2> err", flag, server)
		cmd.Env, cmd.Dir = homeEnv(dir), dir
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, or the test has failed
		said := func(file string) string {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			return string(text)
		}
		write := func(line string) {
			if _, err := io.WriteString(in, line); err != nil {
				t.Fatal(err)
			}
		}
		write("lock /l\n")
		zktest.Eventually(t, "it is locked", func() bool { return strings.HasSuffix(said("out"), "s\n") })
		_, node, _ := strings.Cut(said("out"), "node=")
		node, _, _ = strings.Cut(node, " ")
		at(t, server, "delete", node)
		zktest.Eventually(t, "the loss is told", func() bool { return strings.Contains(said("err"), "is lost") })
		write("create /after\n")
		in.Close()
		wantExit(t, cmd, 74)
		if want := "stdin:2: lock /l is lost: another client deleted the holder's znode"; !strings.Contains(said("err"), want) {
			t.Errorf("%s: told %q, want %q in it", flag, said("err"), want)
		}
		if made := strings.Contains(at(t, server, "ls", "/"), "after"); made != (flag == "-k") {
			t.Errorf("%s: the next line ran: %v", flag, made)
		}
	}
}

// By hand, too, the end of the shell waits for the command under a lock: the lock
// is not free as long as that runs.
func TestHangupKeepsTheLockOfACommand(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+place(t), t.TempDir()
	stubborn := openStubborn(t) // what a command is given otherwise is over when this has ended
	c := openConsoleIn(t, dir, "-server", server)
	c.expect(connected)
	c.typeIn("lock /l -- sh -c 'trap \"\" HUP TERM; touch " + dir + "/held; until [ -e " + dir + "/go ]; do sleep 0.1; done'\r")
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	zktest.Eventually(t, "the command runs", func() bool { return exists("held") })
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := stubborn.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stubborn.wantRestored(143)
	if n := strings.Count(at(t, server, "ls", "/l"), "lock-"); n != 1 {
		t.Errorf("%d hold the lock while the command runs, want 1", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.wantStatus(143)
	if got := at(t, server, "ls", "/l"); got != "[]\n" {
		t.Errorf("left behind: %s", got)
	}
}

// With stty tostop a word to the person does not stop the holder, though its
// command has the terminal.
func TestAlertWithTostop(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), place(t)
	proxy := zktest.NewProxy(t, server)
	c := openConsole(t, "-server", proxy.Addr()+chroot, "lock", "/l", "--",
		"sh", "-c", "stty tostop; echo running; read x; exit 7")
	c.expect(`running\n`)
	proxy.Cut()
	c.expect(`still held`)
	c.typeIn("go on\r")
	c.wantStatus(7)
}

// When the outer of two locks is lost, what runs under the inner one is ended, too:
// the command, which ignores TERM, and its child in the background.
func TestNestedCommand(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+place(t), t.TempDir()
	pids := filepath.Join(dir, "pids")
	cmd := exec.Command("zksh", "-server", server, "lock", "-t", "1", "/a", "--",
		"zksh", "-server", server, "lock", "-t", "1000", "/b", "--",
		"sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $! > "+pids+".new; mv "+pids+".new "+pids+"; wait")
	cmd.Env = homeEnv(dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, or the test has failed
	var child, background int
	zktest.Eventually(t, "the command runs", func() bool {
		text, err := os.ReadFile(pids)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &child, &background)
		return err == nil
	})
	name := strings.Trim(at(t, server, "ls", "/a"), "[]\n")
	at(t, server, "delete", "/a/"+name)
	wantExit(t, cmd, 74)
	if zktest.Runs(child) || zktest.Runs(background) {
		t.Errorf("the command runs: %t; its child: %t; it said %q", zktest.Runs(child), zktest.Runs(background), errs.String())
	}
}

// While zksh stands still the command is ended before anybody else can hold the lock.
func TestHolderAsleepEndsItsCommand(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + place(t)
	g := guard(t, server, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	if err := g.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	newRival(t, server).lock(t, "/l")
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	if err := g.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wantExit(t, g.cmd, 74)
}
