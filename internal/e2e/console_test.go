//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/zksh/zksh/internal/zktest"
)

// A console is an interactive zksh: all three of its streams are one terminal.
type console struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the user's end
	home string
	done chan struct{} // closed when all output has been read

	raw  bool // keep carriage returns in seen
	mu   sync.Mutex
	seen []byte // all output so far, without carriage returns unless raw; guarded by mu
	read int    // length of the part of seen that expect has consumed; guarded by mu
}

// homeEnv returns an environment that puts every file of the user below home and has a dumb
// terminal, which edits its own lines.
func homeEnv(home string) []string {
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"),
		"XDG_STATE_HOME="+filepath.Join(home, "state"), "ZKSH_SERVER=", "ZK_HOST=", "PAGER=", "NO_COLOR=", "TERM=dumb", "COLORTERM=", "TZ=UTC")
}

func openConsole(t *testing.T, args ...string) *console {
	t.Helper()
	return openConsoleIn(t, t.TempDir(), args...)
}

func openConsoleIn(t *testing.T, home string, args ...string) *console {
	t.Helper()
	cmd := exec.Command("zksh", args...)
	cmd.Env = homeEnv(home)
	return startConsole(t, home, cmd)
}

// startConsole starts cmd, which runs zksh, on a new terminal.
func startConsole(t *testing.T, home string, cmd *exec.Cmd) *console {
	t.Helper()
	c := &console{t: t, home: home, done: make(chan struct{}), cmd: cmd}
	var err error
	if c.tty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 24, Cols: 250}); err != nil {
		t.Fatal(err)
	}
	c.readOutput()
	return c
}

// readOutput collects the program's output in the background until the program ends.
func (c *console) readOutput() {
	go func() { // ends when the program does
		defer close(c.done)
		buf := make([]byte, 4096)
		for {
			n, err := c.tty.Read(buf)
			c.mu.Lock()
			if c.raw {
				c.seen = append(c.seen, buf[:n]...)
				c.seen = append(c.seen[:c.read], withoutHints(c.seen[c.read:])...)
			} else {
				c.seen = append(c.seen, bytes.ReplaceAll(buf[:n], []byte("\r"), nil)...)
			}
			c.mu.Unlock()
			if err != nil { // EIO once the program has exited
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // if the test has failed; else it has already ended
		<-c.done
		_ = c.tty.Close()
		if c.t.Failed() {
			c.t.Logf("the terminal showed:\n%s", c.shown())
		}
	})
}

var (
	promptMarks = regexp.MustCompile(`\x1b\]133;[A-D][;0-9]*\a`)
	suggestions = regexp.MustCompile(`\x1b\[38;5;244m[^\x1b]*\x1b\[0m`)
	painted     = regexp.MustCompile(`\x1b\[(?:4|(?:1;)?38;5;\d+)m([^\x1b]*)\x1b\[0m`)
)

// withoutHints removes prompt marks, suggestions, and the colors of the line being typed.
func withoutHints(out []byte) []byte {
	out = suggestions.ReplaceAll(promptMarks.ReplaceAll(out, nil), nil)
	return painted.ReplaceAll(out, []byte("$1"))
}

func (c *console) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.seen)
}

func (c *console) typeIn(keys string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// expect waits until the pattern matches in the output after the previous match. It returns the
// output from there to the end of the match.
func (c *console) expect(pattern string) string {
	c.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	var shown string
	zktest.Eventually(c.t, "shows "+pattern, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		rest := string(c.seen[c.read:])
		at := re.FindStringIndex(rest)
		if at != nil {
			c.read += at[1]
			shown = rest[:at[1]]
		}
		return at != nil
	})
	return shown
}

// run types a line, waits for its answer and the next prompt, and returns both.
func (c *console) run(line, answer string) string {
	c.t.Helper()
	c.typeIn(line + "\r")
	return c.expect(answer) + c.expect(anyPrompt)
}

const (
	anyPrompt = `\[zk: \S+\(\w+\)( \(txn \d+\))? \d+\] `
	// connected includes the event, so that the event cannot appear between a line and its
	// answer.
	connected = `^WatchedEvent state:SyncConnected type:None path:null\n\[zk: \S+\(CONNECTED\) \d+\] `
)

// wantStatus waits until the program ends and checks its exit status.
func (c *console) wantStatus(want int) {
	c.t.Helper()
	wantExit(c.t, c.cmd, want)
	<-c.done
}

func wantExit(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	if got := exitStatus(t, cmd); got != want {
		t.Errorf("exit status %d, want %d", got, want)
	}
}

// exitStatus waits until a program ends and returns its exit status. A program that does not end
// fails the test.
func exitStatus(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
	case <-time.After(zktest.Patience):
		_ = cmd.Process.Kill()
		t.Error("zksh does not end")
		<-ended
	}
	return cmd.ProcessState.ExitCode()
}

// newChroot creates a new znode on the shared server and returns its path, for use as a chroot.
func newChroot(t *testing.T) (chroot string) {
	t.Helper()
	chroot = "/" + strings.ReplaceAll(t.Name(), "/", "-") + time.Now().Format("-150405.000000000")
	zktest.Must(t, makeNode(zktest.Shared(t).Addr(), chroot))
	return chroot
}

// zksh runs the program once, without a terminal, and returns its output. The command must
// succeed.
func zksh(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("zksh", args...)
	cmd.Env = homeEnv(t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("zksh %q: %v", args, err)
	}
	return string(out)
}
