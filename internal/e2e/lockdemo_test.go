//go:build unix

package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// The tests that use a terminal run in parallel only with each other, because they must catch
// the pictures in time.

// The lanes fit the window, even if its size changes, and lockdemo leaves the terminal intact.
func TestLockdemoScreen(t *testing.T) {
	for _, window := range [][2]int{{60, 20}, {200, 60}} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			t.Parallel()
			s := openBash(t, window[0], window[1])
			s.line("clear; stty -a > " + s.dir + "/before")
			s.want(`^\$$`)
			s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
			s.start()
			s.line("lockdemo predecessor -n 12 --hold 1500ms")
			s.want(`(?s)^predecessor, 12 contenders.*^ *1 [ ·*]*█.*^· waits .*█ holds$`)
			// If the terminal changes size again before lockdemo redraws, lines of the old
			// picture may remain in between.
			s.resize(80, 24)
			s.redrawn()
			s.resize(window[0], window[1])
			s.redrawn()
			s.want(`(?s)recipe.*predecessor +25 .*^In every scene, the lock was exclusive\.\n.* agree\.\n\[zk: \S+ 1\]$`)
			s.line("ls /")
			s.wantEnd("[zookeeper]", s.prompt(2))
			s.keys("C-d")
			s.want(`Closed type:None path:null\n\$$`)
			s.line("clear; stty -a | diff " + s.dir + "/before - && echo same")
			s.want(`^same$`)
		})
	}
}

// redrawn waits until lockdemo has drawn two more events.
func (s *screen) redrawn() {
	s.t.Helper()
	event := regexp.MustCompile(`(?m)^[\d.]+ s  .*$`)
	for range 2 {
		last := event.FindString(s.shown())
		s.until("nothing is drawn", func(shown string) bool { return event.FindString(shown) != last })
	}
}

// Ctrl-Z stops lockdemo, fg continues it, and Ctrl-C ends it. No znode is left behind.
func TestLockdemoKeys(t *testing.T) {
	s := openScreen(t, 100, 30)
	s.line("lockdemo parent -n 8 --hold 1h")
	s.want(`(?s)^parent, 8 contenders.*█ holds$`)
	s.keys("C-z")
	s.want(`^\[1\]\+ +Stopped`)
	s.line("clear") // otherwise the old picture would match the next pattern
	s.want(`\A\$$`)
	s.line("fg")
	s.want(`(?s)^parent, 8 contenders.*█ holds$`)
	s.wantCommand()
	s.keys("C-c")
	s.want(`interrupted\n\[zk: \S+ 1\]$`)
	s.line("ls /")
	s.want(`^\[zookeeper\]$`)
}

// If the server disappears, lockdemo reports it, and the prompt returns.
func TestLockdemoWithoutServer(t *testing.T) {
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	s := openScreenOn(t, p.Addr(), 100, 30, "-timeout", "6000")
	s.line("lockdemo curator -n 4 --hold 1h")
	s.want(`(?s)^curator, 4 contenders.*█ holds$`)
	p.Refuse(true)
	p.Cut()
	s.want(`(?s)curator n=4: .*\[zk: \S+ 1\]$`)
}

// However lockdemo ends, its folder is deleted: at once or, after a SIGKILL, when its sessions
// expire.
func TestLockdemoEnds(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.JavaProperty("znode.container.checkIntervalMs", "300")).Addr()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		timeout := "30000"
		if sig == syscall.SIGKILL { // only the timeout ends its sessions
			timeout = "8000"
		}
		cmd := exec.Command("zksh", "-server", server, "-timeout", timeout, "--yes", "lockdemo", "zksh", "naive", "-n", "5", "--hold", "1h")
		var errs strings.Builder
		cmd.Env, cmd.Stderr = homeEnv(t.TempDir()), &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		zktest.Must(t, err)
		var text strings.Builder
		for buf := make([]byte, 1<<12); strings.Count(text.String(), "holds") < 2; {
			n, err := out.Read(buf)
			if text.Write(buf[:n]); err != nil {
				t.Fatalf("%v, %v: %s%s", err, cmd.Wait(), text.String(), errs.String())
			}
		}
		if !strings.Contains(runAt(t, server, "ls", "/"), "zksh-lockdemo-") {
			t.Error("it has no folder")
		}
		zktest.Must(t, cmd.Process.Signal(sig))
		if err := cmd.Wait(); err == nil {
			t.Errorf("%v: it ends well", sig)
		}
		left := func() bool { return strings.Contains(runAt(t, server, "ls", "/"), "lockdemo") }
		if sig != syscall.SIGKILL && left() {
			t.Errorf("%v: its folder is left", sig)
		}
		zktest.Eventually(t, "its folder goes", func() bool { return !left() })
	}
}

// As a single command on a terminal, lockdemo asks before it uses a real server.
func TestLockdemoAsks(t *testing.T) {
	t.Parallel()
	s := openBash(t, 100, 40)
	command := "zksh -server " + zktest.Shared(t).Addr() + " lockdemo zksh -n 3"
	s.line("clear; " + command)
	s.want(`(?s)is not a sandbox; open 4 sessions there .*\?\s+\[y/N\]$`)
	s.line("n")
	s.want(`^nothing was done\n\$$`)
	s.line("clear; " + command)
	s.until("the question is not the last line", func(shown string) bool { return strings.HasSuffix(shown, "[y/N]") })
	s.line("y")
	s.want(`(?s)^zksh +6 .*agree\.\n\$$`)
	s.line("clear; " + command + " </dev/null; echo status $?")
	s.want(`(?s)write zksh --yes lockdemo.*^status 2$`)
}
