//go:build unix

package e2e

import (
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// replaceSession cuts the client's connection, makes the proxy answer the reconnect with a new
// session, and waits until that session exists. No other client may open a session meanwhile.
func replaceSession(t *testing.T, box *zktest.Box, proxy *zktest.Proxy) {
	t.Helper()
	before := sessionIDs(t, box)
	proxy.Forget()
	proxy.Cut()
	zktest.Eventually(t, "another session", func() bool {
		return slices.ContainsFunc(sessionIDs(t, box), func(id int64) bool { return !slices.Contains(before, id) })
	})
}

// For a script, a reconnect that yields another session is an expiry. The next line reports
// which ephemeral znodes were deleted with the old session. With -e that line does not run. If
// the line began before zksh noticed the new session, the line fails; without -e the line after
// it runs.
func TestAnotherSessionBetweenLines(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"-e", "-q"} {
		box := zktest.Sandbox(t, sandbox.Options{})
		proxy := zktest.NewProxy(t, box.Addr())
		p := openPipeline(t, flag, "-server", proxy.Addr())
		p.ask(t, "create -e /mine", "Created /mine")
		replaceSession(t, box, proxy)
		if _, err := io.WriteString(p.in, "create /second\ncreate /third\n"); err != nil {
			t.Fatal(err)
		}
		p.in.Close()
		wantExit(t, p.cmd, 69)
		want := regexp.MustCompile(`^stdin:2: (create: KeeperErrorCode = Session expired for /second; )?` +
			`the session expired, and its watches and its ephemeral znodes /mine are gone; zksh continues in a new session\n`)
		if !want.MatchString(p.errs.String()) {
			t.Errorf("%s: told %q, want %q", flag, p.errs.String(), want)
		}
		begun := strings.Contains(p.errs.String(), "for /second")
		switch made := strings.TrimSpace(runAt(t, box.Addr(), "ls", "/")); { // the sandbox keeps the first session alive
		case flag == "-e" && made == "[mine, zookeeper]":
		case flag == "-q" && begun && made == "[mine, third, zookeeper]":
		case flag == "-q" && !begun && made == "[mine, second, third, zookeeper]":
		default:
			t.Errorf("%s: there are %s; told %q", flag, made, p.errs.String())
		}
	}
}

// A transaction that began in one session is not committed in another, neither in a script nor
// at the prompt.
func TestAnotherSessionInATransaction(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/q", "0")
	proxy := zktest.NewProxy(t, box.Addr())
	p := openPipeline(t, "-server", proxy.Addr())
	p.ask(t, "create -e /mine", "Created /mine")
	if _, err := io.WriteString(p.in, "begin\nset /q 1\n"); err != nil {
		t.Fatal(err)
	}
	replaceSession(t, box, proxy)
	if _, err := io.WriteString(p.in, "commit\n"); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	wantExit(t, p.cmd, 69)
	if reported := p.errs.String(); !strings.Contains(reported, "the session expired") || !strings.Contains(reported, "commit: nothing was done") {
		t.Errorf("told %q", p.errs.String())
	}

	c := openConsole(t, "-server", proxy.Addr())
	c.expect(connected)
	c.run("begin", "")
	c.run("set /q 2", "")
	proxy.Cut()
	c.expect(`the session expired, and its watches`)
	c.expect(`\(CONNECTED\) \(txn 1\) \d+\] `)
	c.run("commit", `Session expired for /q`)
	c.typeIn("quit\r")
	if got := strings.TrimSpace(runAt(t, box.Addr(), "get", "/q")); got != "0" {
		t.Errorf("/q is %q", got)
	}
}

// watch, wait and locks -f continue in the new session.
func TestAnotherSessionWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, change, want string }{
		{"watch -1 /x", "set /x new", `"event":"NodeDataChanged"`},
		{"wait /y", "create /y", `"path":"/y"`},
		{"locks -f /l", "create /l/lock-0000000001", `lock-0000000001`},
	} {
		box := zktest.Sandbox(t, sandbox.Options{})
		runLinesAt(t, box.Addr(), "create /x\ncreate /l\n")
		proxy := zktest.NewProxy(t, box.Addr())
		p := openPipeline(t, "-server", proxy.Addr(), "-o", "json")
		p.ask(t, "create -e /mine", `{"created":"/mine"}`)
		if _, err := io.WriteString(p.in, c.line+"\n"); err != nil {
			t.Fatal(err)
		}
		zktest.Eventually(t, "it watches", func() bool { return watchCount(t, box.Addr()) > 0 })
		replaceSession(t, box, proxy)
		zktest.Eventually(t, "it watches again", func() bool { return watchCount(t, box.Addr()) > 0 })
		runAt(t, box.Addr(), strings.Fields(c.change)...)
		late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Kill() }) // unblocks the reads below
		for got := ""; !strings.Contains(got, c.want); {
			var err error
			if got, err = p.out.ReadString('\n'); err != nil {
				t.Fatalf("%s: %v", c.line, err)
			}
		}
		late.Stop()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // reports the kill
	}
}

// A reconnect that yields another session loses the lock. The command, which ignores TERM, is
// terminated before another client can get the lock. Answers in the new session do not prolong
// the lease.
func TestAnotherSessionEndsTheCommand(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), newChroot(t)
	proxy := zktest.NewProxy(t, server)
	g := startLocked(t, proxy.Addr()+chroot, "trap '' TERM", "while :; do sleep 0.1; done")
	proxy.Forget()
	proxy.Cut()
	newRival(t, server+chroot).lock(t)
	if zktest.Runs(g.child) {
		t.Error("the command still runs while another client holds the lock")
	}
	wantExit(t, g.cmd, 74)
	if want := "lock /l is lost: its session has ended"; !strings.Contains(g.errs.String(), want) {
		t.Errorf("%q is not told: %s", want, g.errs.String())
	}
	if strings.Contains(g.errs.String(), "still held") {
		t.Errorf("told %s", g.errs.String())
	}
}

// After a change of session, a waiter rejoins the lock's queue, behind contenders that arrived
// meanwhile.
func TestAnotherSessionOfAWaiter(t *testing.T) {
	t.Parallel()
	server, chroot := zktest.Shared(t).Addr(), newChroot(t)
	holder := newRival(t, server+chroot)
	holder.lock(t)
	proxy := zktest.NewProxy(t, server)
	waiter := exec.Command("zksh", "-server", proxy.Addr()+chroot, "-timeout", "4000", "lock", "/l", "--", "echo", "mine")
	var out, errs strings.Builder
	waiter.Env, waiter.Stdout, waiter.Stderr = homeEnv(t.TempDir()), &out, &errs
	zktest.Must(t, waiter.Start())
	t.Cleanup(func() { _ = waiter.Process.Kill() }) // if the test has failed; else it has already ended
	queued := func() int { return len(strings.Split(runAt(t, server+chroot, "ls", "/l"), ",")) }
	zktest.Eventually(t, "it waits", func() bool { return queued() == 2 })
	proxy.Forget()
	proxy.Cut()
	zktest.Eventually(t, "it queues up again", func() bool { return queued() == 3 })
	zktest.Must(t, holder.Close(zktest.Within(t)))
	wantExit(t, waiter, 0)
	if !strings.Contains(errs.String(), "lost its place in the queue (its session has ended) and is queueing again") || out.String() != "mine\n" {
		t.Errorf("told %q, printed %q", errs.String(), out.String())
	}
}

// On servers that end a session together with its connection, such as ClickHouse Keeper, a lock
// counts as lost at the disconnect. The command gets neither the rest of the lease nor its grace
// period.
func TestDisconnectFromAKeeperEndsTheCommand(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{Quirks: sandbox.Quirks{Product: sandbox.ClickHouse}})
	proxy := zktest.NewProxy(t, box.Addr())
	g := startLocked(t, proxy.Addr(), "trap '' TERM", "while :; do sleep 0.1; done", "-t", "1h")
	proxy.Refuse(true)
	cut := time.Now()
	proxy.Cut()
	zktest.Eventually(t, "the command is gone", func() bool { return !zktest.Runs(g.child) })
	if took := time.Since(cut); took > 1500*time.Millisecond { // the grace period alone is longer, and 8 s of the lease were left
		t.Errorf("the command was there for %v after the disconnect", took)
	}
	proxy.Refuse(false)
	wantExit(t, g.cmd, 74)
	for _, want := range []string{"presumed lost: the connection was lost, and this server ends a session when its connection ends; another client may hold it",
		"lock /l is lost: its session has ended", "; zksh terminated sh"} {
		if !strings.Contains(g.errs.String(), want) {
			t.Errorf("%q is not told: %s", want, g.errs.String())
		}
	}
	if strings.Contains(g.errs.String(), "is safe for another") {
		t.Errorf("told %s", g.errs.String())
	}
}
