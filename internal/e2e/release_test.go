//go:build unix

package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

// If the server is down when a command under a lock ends, or when the user unlocks, the release
// waits for the server. The exit status is still the command's.
func TestReleaseWaitsForRestart(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(64))
	shot, batch := releaseInAShot(t, server.Addr()), releaseInABatch(t, server.Addr())
	hand := openRich(t, server.Addr())
	hand.typeIn("lock /hand\r")
	hand.expect(`locked /hand`)

	server.Stop()
	hand.typeIn("unlock\r")
	shot.end()
	batch.end()
	hand.expect(`lock /hand: the servers have not confirmed the release yet; zksh keeps trying for up to 30s`)
	hand.typeIn("\x03")
	hand.expect(`/hand: the release is not confirmed; if the lock was not released, the servers`)
	zktest.Eventually(t, "the others wait, too", func() bool {
		return strings.Contains(shot.stderr(t), "have not confirmed the release yet") && strings.Contains(batch.stderr(t), "have not confirmed the release yet")
	})
	server.Restart()

	shot.finish(t, server.Addr(), 7)
	batch.finish(t, server.Addr(), 0)
	zktest.Eventually(t, "what was left by Ctrl-C is removed", func() bool {
		return runAt(t, server.Addr(), "ls", "/hand") == "[]\n"
	})
}

// The release of a lock also waits while an ensemble replaces its leader.
func TestReleaseWaitsForElection(t *testing.T) {
	t.Parallel()
	servers := zktest.Ensemble(t, 3, zktest.Heap(64))
	var list []string
	leader := servers[0]
	for _, s := range servers {
		list = append(list, s.Addr())
		if s.Leads() {
			leader = s
		}
	}
	all := strings.Join(list, ",")
	shot, batch := releaseInAShot(t, all), releaseInABatch(t, all)
	leader.Stop()
	shot.end()
	batch.end()
	shot.finish(t, all, 7)
	batch.finish(t, all, 0)
}

// A releaser is a zksh that holds a lock on /name and releases it after end is called.
type releaser struct {
	name string
	cmd  *exec.Cmd
	errs string // name of the file with its standard error
	end  func()
}

func startReleaser(t *testing.T, name string, in io.Reader, args ...string) *releaser {
	t.Helper()
	r := &releaser{name: name, cmd: exec.Command("zksh", args...), errs: filepath.Join(t.TempDir(), "errs")}
	errs, err := os.Create(r.errs)
	zktest.Must(t, err)
	r.cmd.Env, r.cmd.Stdin, r.cmd.Stderr = homeEnv(t.TempDir()), in, errs
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // if the test has failed; else it has already ended
		_ = errs.Close()
		t.Logf("%s says:\n%s", name, r.stderr(t))
	})
	return r
}

// releaseInAShot holds the lock while a command runs, whose exit status is 7.
func releaseInAShot(t *testing.T, servers string) *releaser {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	r := startReleaser(t, "shot", nil, "-server", servers, "-timeout", "40000",
		"lock", "/shot", "--", "sh", "-c", `: >"$0.began"; until [ -e "$0" ]; do sleep 0.1; done; exit 7`, file)
	zktest.Must(t, r.cmd.Start())
	zktest.Eventually(t, "the command runs", func() bool { _, err := os.Stat(file + ".began"); return err == nil })
	r.end = func() {
		zktest.Check(t, os.WriteFile(file, nil, 0o600))
	}
	return r
}

// releaseInABatch holds the lock until a script runs unlock. One more line follows in the
// script.
func releaseInABatch(t *testing.T, servers string) *releaser {
	t.Helper()
	in, lines := io.Pipe()
	r := startReleaser(t, "batch", in, "-server", servers, "-timeout", "40000")
	out, err := r.cmd.StdoutPipe()
	zktest.Must(t, err)
	zktest.Must(t, r.cmd.Start())
	say := func(text string) {
		if _, err := io.WriteString(lines, text); err != nil {
			t.Error(err)
		}
	}
	say("lock /batch\n")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.end = func() {
		say("unlock\ncreate /after\n")
		lines.Close()
	}
	return r
}

func (r *releaser) stderr(t *testing.T) string {
	text, err := os.ReadFile(r.errs)
	zktest.Check(t, err)
	return string(text)
}

// finish checks the exit status and that the lock is free.
func (r *releaser) finish(t *testing.T, servers string, status int) {
	t.Helper()
	wantExit(t, r.cmd, status)
	if got := runAt(t, servers, "ls", "/"+r.name); got != "[]\n" {
		t.Errorf("%s: the lock's znodes are %s", r.name, got)
	}
	if strings.Contains(r.stderr(t), "is not confirmed;") {
		t.Errorf("%s: the release was given up", r.name)
	}
}

// A wait for a lock that times out names the contender ahead, and the holder if that is a
// different contender.
func TestTimedOutWaitNamesTheHolder(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/l")
	owner := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 10 * time.Second})
	add := func(node, who string) {
		t.Helper()
		zktest.Must(t, zkconn.Exec(t.Context(), owner, zkconn.Create("/l/"+node, []byte(who), zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true})))
	}
	timesOut := func(want string) {
		t.Helper()
		zktest.Eventually(t, want, func() bool { // retried, because a slow run may have no time to read the queue
			got := runScript(t, box.Addr(), "lock -w 1s /l\n", shell.Config{})
			return got.status == 75 && regexp.MustCompile(want).MatchString(got.err)
		})
	}
	const first, second = "_c_0a1b2c3d-0000-4000-8000-0123456789ab-lock-0000000000", "_c_0a1b2c3d-0000-4000-8000-0123456789ac-lock-0000000001"
	add(first, "the holder")
	timesOut(`timed out after 1s: waiting behind the holder, since \S+ \(` + first + `\)\n`)
	add(second, "a waiter")
	timesOut(`timed out after 1s: waiting behind a waiter, since \S+ \(` + second + `\); the lock is held by the holder \(` + first + `\)\n`)
}
