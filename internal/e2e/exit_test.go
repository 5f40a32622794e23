//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A richConsole is a zksh that edits lines itself. Its terminal has no screen, so the test sees
// each byte of the output.
type richConsole struct {
	*console
	slave *os.File // keeps the terminal open, and gives access to its modes
	modes string   // the terminal's modes before zksh started
}

// openRich starts zksh on a new terminal and waits for its prompt.
func openRich(t *testing.T, server string) *richConsole {
	t.Helper()
	r := startRich(t, exec.Command("zksh", "-q", "-server", server))
	r.expect(`\(CONNECTED\) 0\] `)
	// The connection's event appears before or after the prompt. Waiting for it here keeps it
	// out of the text that a test types.
	zktest.Eventually(t, "shows the connection", func() bool { return strings.Contains(r.shown(), "state:SyncConnected") })
	return r
}

func startRich(t *testing.T, cmd *exec.Cmd, env ...string) *richConsole {
	t.Helper()
	home := t.TempDir()
	master, slave, err := pty.Open()
	zktest.Must(t, err)
	r := &richConsole{&console{t: t, cmd: cmd, tty: master, home: home, done: make(chan struct{}), raw: true}, slave, ""}
	r.setSize(100, 24)
	r.modes = r.terminalModes()
	cmd.Env = append(append(homeEnv(home), "TERM=xterm-256color"), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	zktest.Must(t, cmd.Start())
	r.readOutput()
	t.Cleanup(func() { _ = slave.Close() }) // otherwise the reader of the output would never end
	return r
}

func (r *richConsole) setSize(columns, rows uint16) {
	r.t.Helper()
	zktest.Must(r.t, pty.Setsize(r.tty, &pty.Winsize{Rows: rows, Cols: columns}))
}

// terminalModes returns the output of stty -a.
func (r *richConsole) terminalModes() string {
	r.t.Helper()
	cmd := exec.Command("stty", "-a")
	cmd.Stdin = r.slave
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatal("stty:", err)
	}
	return string(out)
}

// wantRestored waits until zksh ends, checks its exit status, and checks that it restored the
// terminal.
func (r *richConsole) wantRestored(status int) {
	r.t.Helper()
	wantExit(r.t, r.cmd, status)
	if after := r.terminalModes(); after != r.modes {
		r.t.Errorf("the terminal was\n%s and is\n%s", r.modes, after)
	}
	r.slave.Close() // ends the reader of the other end
	<-r.done
	if on, off := strings.LastIndex(r.shown(), "\x1b[?2004h"), strings.LastIndex(r.shown(), "\x1b[?2004l"); on > off {
		r.t.Error("bracketed paste stays on")
	}
}

// However zksh exits, it restores the terminal.
func TestLeavingRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	signal := func(sig syscall.Signal) func(*richConsole) {
		return func(r *richConsole) {
			zktest.Check(t, r.cmd.Process.Signal(sig))
		}
	}
	keys := func(text string) func(*richConsole) { return func(r *richConsole) { r.typeIn(text) } }
	for name, c := range map[string]struct {
		leave  func(*richConsole)
		status int
	}{
		"quit":                {keys("quit\r"), 0},
		"end of input":        {keys("\x04"), 0},
		"quit in a paste":     {keys("\x1b[200~ls /\rquit\rls /\r\x1b[201~"), 0},
		"Ctrl-\\, then quit":  {keys("\x1cquit\r"), 0},
		"SIGQUIT, then quit":  {func(r *richConsole) { signal(syscall.SIGQUIT)(r); r.typeIn("quit\r") }, 0},
		"SIGTERM":             {signal(syscall.SIGTERM), 143},
		"SIGHUP":              {signal(syscall.SIGHUP), 143},
		"SIGTERM twice":       {func(r *richConsole) { signal(syscall.SIGTERM)(r); signal(syscall.SIGTERM)(r) }, 143},
		"SIGHUP, SIGTERM":     {func(r *richConsole) { signal(syscall.SIGHUP)(r); signal(syscall.SIGTERM)(r) }, 143},
		"SIGTERM in a line":   {func(r *richConsole) { r.typeIn("create /a 中"); r.expect("中"); signal(syscall.SIGTERM)(r) }, 143},
		"SIGTERM in a menu":   {func(r *richConsole) { r.typeIn("ge\t\t"); r.expect("getAcl"); signal(syscall.SIGTERM)(r) }, 143},
		"SIGTERM in a search": {func(r *richConsole) { r.typeIn("\x12x"); r.expect("search"); signal(syscall.SIGTERM)(r) }, 143},
		"SIGTERM in a question": {func(r *richConsole) {
			r.typeIn("create /q\rdeleteall /q\r")
			r.expect(`\[y/N\]`)
			signal(syscall.SIGTERM)(r)
		}, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRich(t, server)
			if r.terminalModes() == r.modes {
				t.Error("the terminal is not in raw mode; the test shows nothing")
			}
			c.leave(r)
			r.wantRestored(c.status)
		})
	}
}

// SIGTERM exits the shell even if the running command ignores its cancellation.
func TestTerminatedInAStubbornCommand(t *testing.T) {
	t.Parallel()
	r := openStubborn(t)
	zktest.Must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.wantRestored(143)
}

// openStubborn starts a shell that runs a command which ignores its cancellation.
func openStubborn(t *testing.T) *richConsole {
	t.Helper()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	r := openRich(t, server)
	command, begun := stubbornCommand(t, server)
	r.typeIn(command + "\r")
	begun()
	return r
}

// When its terminal disappears, the shell exits and closes its session.
func TestLostTerminal(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	r := openRich(t, server)
	r.typeIn("create -e /mine\r")
	r.expect(`Created /mine`)
	r.expect(`CONNECTED\) 1\] `)
	r.slave.Close()
	r.tty.Close()
	wantExit(t, r.cmd, 143) // the system sends SIGHUP
	zktest.Eventually(t, "nothing is left behind", func() bool { return runAt(t, server, "ls", "/") == "[zookeeper]\n" })
}

// On terminals that cannot handle them, zksh writes no escape sequences.
func TestPlainTerminals(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	for name, c := range map[string]struct {
		env  string
		attr *syscall.SysProcAttr
	}{
		"dumb":                    {env: "TERM=dumb"},
		"no name":                 {env: "TERM="},
		"no controlling terminal": {attr: &syscall.SysProcAttr{Setsid: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("zksh", "-server", server)
			cmd.SysProcAttr = c.attr
			r := startRich(t, cmd, c.env)
			r.typeIn("create /" + strings.ReplaceAll(name, " ", "") + "\n")
			r.expect(`Created `)
			r.expect(`CONNECTED\) 1\] `)
			r.typeIn("bogus\n")
			r.expect(`unknown command`)
			r.typeIn("quit\n")
			wantExit(t, cmd, 127)
			if at := strings.IndexByte(r.shown(), 0x1b); at >= 0 {
				t.Errorf("an escape sequence: %q", r.shown()[at:])
			}
			r.slave.Close()
		})
	}
}

// If standard input or output is a pipe, zksh writes neither a prompt nor escape sequences.
func TestPipeOnOneSide(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	master, slave, err := pty.Open()
	zktest.Must(t, err)
	defer master.Close()
	defer slave.Close()
	env := append(homeEnv(t.TempDir()), "TERM=xterm-256color")

	cmd := exec.Command("zksh", "-server", server)
	var out strings.Builder
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, slave, &out, slave // as zksh | tee log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if _, err := master.WriteString("ls /\nquit\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil || out.String() != "[zookeeper]\n" {
		t.Errorf("to a pipe: %q, %v", out.String(), err)
	}
	if got := shownBy(t, master, "end the input\r\n"); !strings.Contains(got, "zksh: reading commands from the terminal, without a prompt") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("beside a pipe: %q", got)
	}

	cmd = exec.Command("zksh", "-server", server)
	cmd.Env, cmd.Stdin, cmd.Stdout = env, strings.NewReader("ls /\n"), slave
	zktest.Must(t, cmd.Run())
	if got := shownBy(t, master, "keeper]\r\n"); !strings.HasSuffix(got, "[zookeeper]\r\n") || strings.Contains(got, "\x1b") {
		t.Errorf("from a pipe: %q", got)
	}
}

// shownBy returns the output of a terminal up to and including end.
func shownBy(t *testing.T, master *os.File, end string) string {
	t.Helper()
	zktest.Must(t, master.SetReadDeadline(time.Now().Add(zktest.Patience)))
	var shown []byte
	for buf := make([]byte, 1000); !strings.HasSuffix(string(shown), end); {
		n, err := master.Read(buf)
		if shown = append(shown, buf[:n]...); err != nil {
			t.Fatalf("%q, %v", shown, err)
		}
	}
	return string(shown)
}

// stubbornCommand returns a command that ignores its cancellation: it writes more to a FIFO than
// fits, and nobody reads it. begun waits until the command writes.
func stubbornCommand(t *testing.T, server string) (command string, begun func()) {
	t.Helper()
	runAt(t, server, "create", "/a", strings.Repeat("x", 100<<10))
	name := filepath.Join(t.TempDir(), "fifo")
	zktest.Must(t, unix.Mkfifo(name, 0o600))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	zktest.Must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return "get -f " + name + " /a", func() {
		t.Helper()
		zktest.Eventually(t, "the command has begun to write", func() bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 && err == nil
		})
	}
}

// A znode's name or data cannot send control sequences to the terminal, neither through the
// line, the menu nor an event.
func TestEscapesWhileTyping(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	r := openRich(t, server)
	r.typeIn("history\x1b[200~ \x1b]0;title\x07\x9b\x1b[201~")
	r.expect(`history`)
	r.typeIn("\x15create \"/rtl\u202etxt\" \"a b\"\r")
	r.expect(`Created /rtl\\u202etxt`)
	r.typeIn("get /rtl")
	r.expect(`rtl\\u202etxt`)
	r.typeIn("\x03\x04")
	wantExit(t, r.cmd, 0)
	for _, bad := range []string{"\x1b]0;", "\x07", "\u202e"} {
		if strings.Contains(r.shown(), bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
	r.slave.Close()
}
