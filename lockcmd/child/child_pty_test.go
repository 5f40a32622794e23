//go:build unix && !aix && !solaris

package child

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/zksh/zksh/internal/zktest"
)

// A console is a terminal on which a helper runs.
type console struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd

	mu    sync.Mutex
	shown strings.Builder
}

// waitForTerminal makes a script wait at its beginning until it has the terminal.
const waitForTerminal = "until [ $(ps -o tpgid= $$) -eq $(ps -o pgid= $$) ]; do :; done; "

// openConsole starts a helper on a terminal of its own. If piped is true, its standard
// output is not the terminal.
func openConsole(t *testing.T, text string, piped bool) *console {
	t.Helper()
	c := &console{t: t, cmd: helper(t, text)}
	if piped {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		zktest.Must(t, err)
		defer null.Close()
		c.cmd.Stdout = null
	}
	var err error
	if c.pty, err = pty.Start(c.cmd); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() { // ends when the terminal is closed
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := c.pty.Read(b)
			c.mu.Lock()
			c.shown.Write(b[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // fails only if it has ended
		_ = c.cmd.Wait()         // with any status
		c.pty.Close()
		<-read
	})
	return c
}

func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.String()
}

func (c *console) expect(text string) {
	c.t.Helper()
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the terminal shows %q", c.text())
		}
	}()
	zktest.Eventually(c.t, text, func() bool { return strings.Contains(c.text(), text) })
}

func (c *console) typeText(text string) {
	c.t.Helper()
	if _, err := c.pty.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// The program gets the terminal: it can read from it, and it alone gets Ctrl-C. Afterwards
// zksh has the terminal again.
func TestTerminalIsHandedOver(t *testing.T) {
	c := openConsole(t, `trap "echo child-int" INT; read x; echo "read $x"; echo ready; read y || read y; echo "read $y"; exit 6`, false)
	c.typeText("hello\n")
	c.expect("read hello")
	c.expect("ready")
	c.typeText("\x03")
	c.expect("child-int")
	c.typeText("again\n")
	c.expect("helper: status 6, <nil>, 0 interrupts, terminal ours: true")
}

func TestCtrlZ(t *testing.T) {
	c := openConsole(t, waitForTerminal+`echo ready; read x; echo "read $x"; exit 6`, false)
	c.expect("ready")
	c.typeText("\x1a")
	c.expect("alert: sh was stopped; zksh continues it")
	c.typeText("hello\n")
	c.expect("read hello")
	c.expect("helper: status 6, <nil>, 0 interrupts, terminal ours: true")
}

// In a pipeline, the terminal stays with zksh's group until the program reads from it.
func TestTerminalOnDemand(t *testing.T) {
	c := openConsole(t, `echo ready >&2; read x </dev/tty; echo "read $x" >&2; exit 6`, true)
	c.expect("ready")
	c.typeText("hello\n")
	c.expect("read hello")
	c.expect("helper: status 6, <nil>, 0 interrupts, terminal ours: true")
	if strings.Contains(c.text(), "alert") {
		t.Errorf("an alert in %q", c.text())
	}
}

// In a pipeline, zksh gets Ctrl-C and passes it on to the program.
func TestCtrlCInAPipeline(t *testing.T) {
	c := openConsole(t, `trap "exit 5" INT; echo ready >&2; while :; do sleep 0.05; done`, true)
	c.expect("ready")
	c.typeText("\x03")
	c.expect("helper: status 5, <nil>, 1 interrupts, terminal ours: true")
}

func TestTerminalModesAreRestored(t *testing.T) {
	c := openConsole(t, `stty raw -echo; echo ready; kill -9 $$`, false)
	c.expect("ready")
	c.expect("helper: status 137, <nil>, 0 interrupts, terminal ours: true, modes as before: true")
}

// Without the lock, zksh's group would get Ctrl-C. So it gets the signal after the program was killed by it.
func TestCtrlCReachesOurGroup(t *testing.T) {
	c := openConsole(t, `echo ready; exec sleep 1000`, false)
	c.expect("ready")
	c.typeText("\x03")
	c.expect("helper: status 130, <nil>, 1 interrupts, terminal ours: true")
}

// While zksh waits for what the program has left, it has the terminal, and Ctrl-C terminates the rest.
func TestCtrlCTerminatesTheRest(t *testing.T) {
	c := openConsole(t, `stty raw; (trap "" INT; exec sleep 1000) & echo ready; kill -9 $$`, false)
	c.expect("alert: sh has ended; zksh holds the lock until these processes of it have ended, too: ")
	c.expect(" (sleep); Ctrl-C terminates them")
	c.typeText("\x03")
	c.expect("helper: status 137, <nil>, 1 interrupts, terminal ours: true, modes as before: true")
}
