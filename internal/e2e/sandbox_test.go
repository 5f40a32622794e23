//go:build unix

package e2e

import (
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// The first shell runs the sandbox; later ones join it.
func TestSandboxIsShared(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ann := openPipelineIn(t, home, "--sandbox")
	ann.ask(t, "create /queue", "Created /queue")
	ann.ask(t, "create -s -e /queue/n- Ann", "Created /queue/n-0000000000")
	ben := openPipelineIn(t, home, "--sandbox")
	ben.ask(t, "create -s -e /queue/n- Ben", "Created /queue/n-0000000001")
	ben.ask(t, "ls /queue", "[n-0000000000, n-0000000001]")
	ben.leave(t)
	ann.ask(t, "ls /queue", "[n-0000000000]")
	ann.leave(t)
	// The sandbox ended with its shell, so the next shell starts a new one.
	eve := openPipelineIn(t, home, "--sandbox")
	eve.ask(t, "ls /", "[zookeeper]")
	eve.leave(t)
}

// leave closes zksh's input and checks that zksh exits with status 0 and without errors.
func (p *pipeline) leave(t *testing.T) {
	t.Helper()
	zktest.Must(t, p.in.Close())
	wantExit(t, p.cmd, 0)
	if p.errs.Len() > 0 {
		t.Errorf("on standard error: %q", p.errs.String())
	}
}

func TestSandboxReportsItsEnd(t *testing.T) {
	t.Parallel()
	first := openConsole(t, "--sandbox")
	first.expect(`in-memory ZooKeeper`)
	first.expect(`^To join it from another terminal, run zksh --sandbox\.`)
	first.expect(connected)
	first.run("create /a", `^Created /a\n`)
	second := openConsoleIn(t, first.home, "--sandbox")
	second.expect(`^You joined the sandbox of another terminal\.\n`)
	second.expect(connected)
	second.run("sandbox pause", `^this sandbox belongs to another shell; only that shell can pause it\n`)
	second.run("ls /", `^\[a, zookeeper\]\n`)
	first.typeIn("quit\r")
	first.wantStatus(0)
	second.expect(`^the sandbox has ended, because the shell that ran it has exited`)
	second.expect(anyPrompt)
	second.typeIn("quit\r")
	second.wantStatus(0)
}

// A new sandbox starts even if a killed shell has left its meeting file behind.
func TestSandboxAfterAKill(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p := openPipelineIn(t, home, "--sandbox")
	p.ask(t, "create /old", "Created /old")
	zktest.Must(t, p.cmd.Process.Kill())
	wantExit(t, p.cmd, -1)
	file := filepath.Join(home, "state", "zksh", "sandbox")
	if text := readFile(t, file); !strings.HasPrefix(text, "127.0.0.1:") {
		t.Errorf("the meeting file says %q", text)
	}
	wantPrivate(t, file)
	p = openPipelineIn(t, home, "--sandbox")
	p.ask(t, "ls /", "[zookeeper]")
	p.leave(t)
}

func TestSandboxesStartedAtOnce(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var all []*pipeline
	for range 4 {
		all = append(all, openPipelineIn(t, home, "--sandbox"))
	}
	for i, p := range all {
		name := "/" + string(rune('a'+i))
		p.ask(t, "create "+name, "Created "+name)
	}
	for _, p := range all {
		p.ask(t, "ls /", "[a, b, c, d, zookeeper]")
	}
}

// With -listen, the sandbox serves without a shell until a signal ends it, with exit status 0.
func TestSandboxServes(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		home := t.TempDir()
		p := openPipelineIn(t, home, "--sandbox", "-listen", "127.0.0.1:0")
		line, err := p.out.ReadString('\n')
		m := regexp.MustCompile(`^serving the sandbox on (127\.0\.0\.1:\d+);`).FindStringSubmatch(line)
		if m == nil || strings.HasSuffix(m[1], ":0") {
			t.Fatalf("it says %q, %v", line, err)
		}
		if got := zksh(t, "-server", m[1], "create", "/a"); got != "Created /a\n" {
			t.Errorf("create: %q", got)
		}
		joined := openPipelineIn(t, home, "--sandbox")
		joined.ask(t, "ls /", "[a, zookeeper]")
		joined.leave(t)
		zktest.Must(t, p.cmd.Process.Signal(sig))
		if rest, err := io.ReadAll(p.out); err != nil || !strings.Contains(string(rest), "Never use it in production") {
			t.Errorf("it goes on %q, %v", rest, err)
		}
		wantExit(t, p.cmd, 0)
		if p.errs.Len() > 0 {
			t.Errorf("on standard error: %q", p.errs.String())
		}
	}
}

// On a terminal, Ctrl-C and Ctrl-\ end a sandbox that only serves, with exit status 0. They do so
// at the first time, and also if a client is connected.
func TestKeysEndServingSandbox(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"Ctrl-C": "\x03", `Ctrl-\`: "\x1c"} {
		for _, withClient := range []bool{false, true} {
			c := openConsole(t, "--sandbox", "--listen", "127.0.0.1:0")
			c.expect(`^serving the sandbox on \S+; press Ctrl-C to stop it\n`)
			c.expect(`its data is lost when the shell that runs it exits\.\n`)
			if withClient {
				client := openConsoleIn(t, c.home, "--sandbox")
				client.expect(connected)
				client.run("create -e /mine", `^Created /mine\n`)
			}
			c.typeIn(key)
			c.wantStatus(0)
			if shown := c.shown(); strings.Contains(shown, "reading commands") || strings.Contains(shown, "goroutine") {
				t.Errorf("%s: the terminal shows %q", name, shown)
			}
		}
	}
}

// sandbox pause makes other shells lose their connection. sandbox resume lets them continue their
// session.
func TestSandboxPause(t *testing.T) {
	t.Parallel()
	first := openConsole(t, "--sandbox")
	first.expect(connected)
	second := openConsoleIn(t, first.home, "--sandbox")
	second.expect(connected)
	second.run("create -e /mine", `^Created /mine\n`)

	// The first shell's events may come at any point in its output, even right before an answer,
	// on the line of a prompt. So the patterns for the first shell do not begin with ^.
	first.run("sandbox pause", `sandbox paused\n`)
	second.expect(`^WatchedEvent state:Disconnected type:None path:null\n`)
	second.expect(`\(CONNECTING\) 1\] `)
	first.run("sandbox resume", `sandbox resumed\n`)
	second.expect(connected)
	second.run("getEphemerals", `^\[/mine\]\n`)
	first.run("create /a", `Created /a\n`)
	second.typeIn("quit\r")
	second.wantStatus(0)
	first.typeIn("quit\r")
	first.wantStatus(0)
}
