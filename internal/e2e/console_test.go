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

// console is zksh with a person in front of it: all three streams are one
// terminal.
type console struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the person's end
	home string
	done chan struct{} // closed when all output has been read

	raw  bool // carriage returns are kept
	mu   sync.Mutex
	seen []byte // all that was shown, without carriage returns
	read int    // how far expect has come
}

// homeEnv is an environment with every file of the user below home, and with a
// terminal that edits its own lines.
func homeEnv(home string) []string {
	return append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"),
		"XDG_STATE_HOME="+filepath.Join(home, "state"), "ZKSH_SERVER=", "PAGER=", "NO_COLOR=", "TERM=dumb", "TZ=UTC")
}

func openConsole(t *testing.T, args ...string) *console {
	t.Helper()
	return openConsoleIn(t, t.TempDir(), args...)
}

func openConsoleIn(t *testing.T, home string, args ...string) *console {
	t.Helper()
	c := &console{t: t, home: home, done: make(chan struct{}), cmd: exec.Command("zksh", args...)}
	c.cmd.Env = homeEnv(c.home)
	var err error
	if c.tty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 24, Cols: 250}); err != nil {
		t.Fatal(err)
	}
	c.watch()
	return c
}

// watch reads what the program shows, until it ends.
func (c *console) watch() {
	go func() { // ends with the program
		defer close(c.done)
		buf := make([]byte, 4096)
		for {
			n, err := c.tty.Read(buf)
			c.mu.Lock()
			if c.raw {
				c.seen = append(c.seen, buf[:n]...)
			} else {
				c.seen = append(c.seen, bytes.ReplaceAll(buf[:n], []byte("\r"), nil)...)
			}
			c.mu.Unlock()
			if err != nil { // EIO when the program has gone
				return
			}
		}
	}()
	c.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it has ended, or the test has failed
		<-c.done
		_ = c.tty.Close()
		if c.t.Failed() {
			c.t.Logf("the terminal showed:\n%s", c.shown())
		}
	})
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

// expect waits until the pattern shows behind what was expected before, and
// returns what lies between and the match.
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

// run types a line and waits for its answer and for the next prompt.
func (c *console) run(line, answer string) string {
	c.t.Helper()
	c.typeIn(line + "\r")
	return c.expect(answer) + c.expect(anyPrompt)
}

const (
	anyPrompt = `\[zk: \S+\(\w+\)( \(txn \d+\))? \d+\] `
	// The event has been shown, so it cannot come between a line and its answer.
	connected = `^WatchedEvent state:SyncConnected type:None path:null\n\[zk: \S+\(CONNECTED\) \d+\] `
)

// wantStatus waits for the end of the program.
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

// exitStatus waits for the end of a program; one that does not end is an error.
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

// place makes a znode of its own on the shared server and returns the connect
// string with it as chroot.
func place(t *testing.T) (chroot string) {
	t.Helper()
	chroot = "/" + strings.ReplaceAll(t.Name(), "/", "-") + time.Now().Format("-150405.000000000")
	if err := makeNode(zktest.Shared(t).Addr(), chroot); err != nil {
		t.Fatal(err)
	}
	return chroot
}

// zksh runs one command elsewhere.
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
