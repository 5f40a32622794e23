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
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// A rival is another client that wants the same lock. Its connection is not affected by the
// faults of the test.
type rival struct{ *zkconn.Session }

type rivalConn struct{ s *zkconn.Session }

// Session implements zklock.Conn.
func (c rivalConn) Session(ctx context.Context) (zklock.Session, error) {
	return ensemble.Pin(ctx, c.s.Ensemble())
}

func newRival(t *testing.T, server string) rival {
	t.Helper()
	return rival{zksession.Open(t, zkconn.Config{Servers: server, Timeout: 10 * time.Second})}
}

// lock acquires the lock /l, with a generous time limit.
func (r rival) lock(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*zktest.Patience)
	defer cancel()
	if _, err := zklock.New(rivalConn{r.Session}, "/l", zklock.Options{}).Lock(ctx); err != nil {
		t.Fatal(err)
	}
}

// A lockedCommand is a zksh that holds a lock while its command runs.
type lockedCommand struct {
	cmd   *exec.Cmd
	errs  strings.Builder
	child int // pid of the command
}

// startLocked starts a lockedCommand and returns when its command runs. The shell code traps
// runs before sh writes its pid, and script runs after that.
func startLocked(t *testing.T, server, traps, script string, flags ...string) *lockedCommand {
	t.Helper()
	return startLockedTo(t, nil, server, traps, script, flags...)
}

// startLockedTo is like startLocked, but sends standard error to errs unless that is nil.
func startLockedTo(t *testing.T, errs io.Writer, server, traps, script string, flags ...string) *lockedCommand {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	args := append([]string{"-server", server, "-timeout", "10000", "lock"}, flags...)
	args = append(args, "/l", "--", "sh", "-c", traps+"\necho $$ > "+file+".new; mv "+file+".new "+file+"; "+script)
	g := &lockedCommand{cmd: exec.Command("zksh", args...)}
	g.cmd.Env, g.cmd.Stderr = homeEnv(t.TempDir()), &g.errs
	if errs != nil {
		g.cmd.Stderr = errs
	}
	zktest.Must(t, g.cmd.Start())
	t.Cleanup(func() { _ = g.cmd.Process.Kill() }) // if the test has failed; else it has already ended
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

// When no server answers, zksh terminates the command under a lock before another client can get
// the lock, even if the command ignores TERM.
func TestCommandEndsBeforeTheLease(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), newChroot(t)
	proxy := zktest.NewProxy(t, server)
	g := startLocked(t, proxy.Addr()+chroot, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	proxy.Hold(true)
	newRival(t, server+chroot).lock(t)
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

// zksh terminates the command in time even if nobody reads zksh's messages.
func TestBlockedTerminalKeepsNoCommandAlive(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), newChroot(t)
	proxy := zktest.NewProxy(t, server)
	r, w, err := os.Pipe()
	zktest.Must(t, err)
	defer r.Close()
	fill(t, w)
	g := startLockedTo(t, w, proxy.Addr()+chroot, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	w.Close()
	proxy.Hold(true)
	newRival(t, server+chroot).lock(t)
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	proxy.Hold(false)
	go func() { _, _ = io.Copy(io.Discard, r) }() // ends when zksh does
	wantExit(t, g.cmd, 74)
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	zktest.Must(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for {
		if _, err := w.Write(make([]byte, 4096)); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Case 22 of the lock recipe (lockcmd/zklock/CASES.md): if zksh is killed, its command is
// terminated too, and another client gets the lock.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	g := startLocked(t, server, "", "while :; do sleep 0.1; done")
	zktest.Must(t, g.cmd.Process.Kill())
	_ = g.cmd.Wait() // reports the kill
	zktest.Eventually(t, "the command is gone", func() bool { return !zktest.Runs(g.child) })
	newRival(t, server).lock(t)
}

// zksh passes signals to the command under the lock. The command decides the exit status, and
// the lock is released.
func TestSignalsGoToTheCommand(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		g := startLocked(t, server, "trap 'exit 42' INT TERM HUP QUIT", "while :; do sleep 0.1; done")
		zktest.Must(t, g.cmd.Process.Signal(sig))
		wantExit(t, g.cmd, 42)
		if got := runAt(t, server, "ls", "/l"); got != "[]\n" {
			t.Errorf("%v: left behind: %s", sig, got)
		}
	}
}

// A signal to a waiter makes it leave the queue.
func TestSignalWhileWaitingForALock(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	g := startLocked(t, server, "", "while :; do sleep 0.1; done")
	for sig, want := range signalStatuses {
		waiter := exec.Command("zksh", "-server", server, "lock", "/l", "--", "true")
		waiter.Env = homeEnv(t.TempDir())
		var errs strings.Builder
		waiter.Stderr = &errs
		zktest.Must(t, waiter.Start())
		zktest.Eventually(t, "two are in the queue", func() bool { return strings.Count(runAt(t, server, "ls", "/l"), "lock-") == 2 })
		zktest.Must(t, waiter.Process.Signal(sig))
		wantExit(t, waiter, want)
		if n := strings.Count(runAt(t, server, "ls", "/l"), "lock-"); n != 1 {
			t.Errorf("%v: %d in the queue, want the holder alone", sig, n)
		}
	}
	zktest.Must(t, g.cmd.Process.Signal(syscall.SIGTERM))
	wantExit(t, g.cmd, 143)
}

// A lock that is lost between two lines of a script ends the script, unless -k is set.
func TestLossEndsABatch(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-q", "-k"} {
		server, dir := zktest.Shared(t).Addr()+newChroot(t), t.TempDir()
		// Standard output and error are files, so that the test can read them while zksh runs.
		cmd := exec.Command("sh", "-c", "exec zksh $0 -server $1 > out 2> err", flag, server)
		cmd.Env, cmd.Dir = homeEnv(dir), dir
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		zktest.Must(t, err)
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed; else it has already ended
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
		runAt(t, server, "delete", node)
		zktest.Eventually(t, "the loss is told", func() bool { return strings.Contains(said("err"), "is lost") })
		write("create /after\n")
		in.Close()
		wantExit(t, cmd, 74)
		if want := "stdin:2: lock /l is lost: another client deleted the holder's znode"; !strings.Contains(said("err"), want) {
			t.Errorf("%s: told %q, want %q in it", flag, said("err"), want)
		}
		if made := strings.Contains(runAt(t, server, "ls", "/"), "after"); made != (flag == "-k") {
			t.Errorf("%s: the next line ran: %v", flag, made)
		}
	}
}

// At the prompt, a notice reports a lock that could not be acquired in the background. A script that
// runs later with source does not stop for it.
func TestSourceAfterABackgroundFailure(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+newChroot(t), t.TempDir()
	runAt(t, server, "lock", "--owner", "ann", "/busy")
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "script"), []byte("create /first\ncreate /second\n"), 0o600))
	c := openConsoleIn(t, dir, "-server", server)
	c.expect(connected)
	c.run("lock -b -w 2 /busy", `waiting /busy`)
	c.expect(`lock -b: /busy: timed out`)
	c.run("source ~/script", `Created /second`)
	c.typeIn("quit\r")
	c.wantStatus(0)
}

// After a hangup at the prompt, too, zksh waits for the command under a lock and keeps the lock
// while the command runs.
func TestHangupKeepsTheLockOfACommand(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+newChroot(t), t.TempDir()
	stubborn := openStubborn(t) // exits after the time that zksh usually grants a command; a command under a lock has no such limit
	c := openConsoleIn(t, dir, "-server", server)
	c.expect(connected)
	c.typeIn("lock /l -- sh -c 'trap \"\" HUP TERM; touch " + dir + "/held; until [ -e " + dir + "/go ]; do sleep 0.1; done'\r")
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	zktest.Eventually(t, "the command runs", func() bool { return exists("held") })
	zktest.Must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	zktest.Must(t, stubborn.cmd.Process.Signal(syscall.SIGTERM))
	stubborn.wantRestored(143)
	if n := strings.Count(runAt(t, server, "ls", "/l"), "lock-"); n != 1 {
		t.Errorf("%d hold the lock while the command runs, want 1", n)
	}
	zktest.Must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	c.wantStatus(143)
	if got := runAt(t, server, "ls", "/l"); got != "[]\n" {
		t.Errorf("left behind: %s", got)
	}
}

// Ctrl-C that kills the command under a lock also ends the script that runs zksh, or zksh's own script.
// The lock is released.
func TestCtrlCUnderALockEndsTheScript(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+newChroot(t), t.TempDir()
	lines := filepath.Join(dir, "lines")
	zktest.Must(t, os.WriteFile(lines, []byte("lock /l -- sh -c 'echo running; exec sleep 1000'\ncreate /next\n"), 0o600))
	for _, script := range []string{
		"for i in 1 2; do zksh lock /l -- sh -c 'echo running; exec sleep 1000'; zksh create /next; done",
		"exec zksh --file " + lines,
	} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Env = append(homeEnv(dir), "ZKSH_SERVER="+server)
		c := startConsole(t, dir, cmd)
		c.expect(`running\n`)
		c.typeIn("\x03")
		<-c.done
		_ = cmd.Wait() // killed by SIGINT
		if end := cmd.ProcessState.Sys().(syscall.WaitStatus); !end.Signaled() || end.Signal() != syscall.SIGINT {
			t.Errorf("%s: ended with %s", script, cmd.ProcessState)
		}
		if got := runAt(t, server, "ls", "-R", "/"); strings.Contains(got, "next") || strings.Contains(got, "lock-") {
			t.Errorf("%s: left behind: %s", script, got)
		}
	}
}

// With stty tostop, a message to the terminal does not stop zksh, although its command is in the
// foreground.
func TestAlertWithTostop(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), newChroot(t)
	proxy := zktest.NewProxy(t, server)
	c := openConsole(t, "-server", proxy.Addr()+chroot, "lock", "/l", "--",
		"sh", "-c", "stty tostop; echo running; read x; exit 7")
	c.expect(`running\n`)
	proxy.Cut()
	c.expect(`still held`)
	c.typeIn("go on\r")
	c.wantStatus(7)
}

// When the outer of two nested locks is lost, zksh terminates the command under the inner lock,
// which ignores TERM, and the command's background child.
func TestNestedCommand(t *testing.T) {
	t.Parallel()
	server, dir := zktest.Shared(t).Addr()+newChroot(t), t.TempDir()
	pids := filepath.Join(dir, "pids")
	cmd := exec.Command("zksh", "-server", server, "lock", "-t", "1", "/a", "--",
		"zksh", "-server", server, "lock", "-t", "1000", "/b", "--",
		"sh", "-c", "trap '' TERM; sleep 1000 & echo $$ $! > "+pids+".new; mv "+pids+".new "+pids+"; wait")
	cmd.Env = homeEnv(dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	zktest.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test has failed; else it has already ended
	var child, background int
	zktest.Eventually(t, "the command runs", func() bool {
		text, err := os.ReadFile(pids)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &child, &background)
		return err == nil
	})
	name := strings.Trim(runAt(t, server, "ls", "/a"), "[]\n")
	runAt(t, server, "delete", "/a/"+name)
	wantExit(t, cmd, 74)
	if zktest.Runs(child) || zktest.Runs(background) {
		t.Errorf("the command runs: %t; its child: %t; it said %q", zktest.Runs(child), zktest.Runs(background), errs.String())
	}
}

// Case 21 of the lock recipe: while zksh is stopped, its command is terminated before another
// client can get the lock. When zksh continues, it reports the loss. TestFence in
// internal/interop tests that a write under such a lock is rejected.
func TestCommandOfStoppedHolderEnds(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	g := startLocked(t, server, "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1")
	zktest.Must(t, g.cmd.Process.Signal(syscall.SIGSTOP))
	newRival(t, server).lock(t)
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	zktest.Must(t, g.cmd.Process.Signal(syscall.SIGCONT))
	wantExit(t, g.cmd, 74)
}
