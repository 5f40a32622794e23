//go:build unix

package e2e

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// When a window that runs a shell is closed, zksh gets SIGHUP twice: from the system and from
// the shell. zksh still closes its session.
func TestClosedWindow(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	r := startRich(t, exec.Command("bash", "--norc", "--noprofile", "-i"), "PS1=$ ")
	r.typeIn("zksh -q -server " + server + "\n")
	r.expect(`CONNECTED\) 0\] `)
	r.typeIn("create -e /mine\r")
	r.expect(`CONNECTED\) 1\] `)
	r.slave.Close()
	r.tty.Close()
	zktest.Eventually(t, "the ephemeral znode is gone", func() bool { return runAt(t, server, "ls", "/") == "[zookeeper]\n" })
}

// SIGTERM terminates zksh together with its pager, even if the pager is a pipeline, and restores
// the terminal.
func TestTerminatedInThePager(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, server, 40)
	for _, pager := range []string{"less", "cat | less"} {
		r := startRich(t, exec.Command("zksh", "-q", "-server", server), "PAGER="+pager)
		r.expect(`CONNECTED\) 0\] `)
		r.typeIn("ls -R /tree\r")
		r.expect(`n0000000009`)
		zktest.Eventually(t, "the pager has the terminal", func() bool { return r.terminalModes() != r.modes })
		zktest.Must(t, r.cmd.Process.Signal(syscall.SIGTERM))
		r.wantRestored(143)
		zktest.Eventually(t, pager+" is gone", func() bool { return errors.Is(unix.Kill(-r.cmd.Process.Pid, 0), unix.ESRCH) })
	}
}

// A pager finds the terminal with its echo, which zksh turns off while a command runs. Otherwise a
// pager that ends after zksh would leave the terminal without it.
func TestPagerFindsTheEcho(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, server, 40)
	r := startRich(t, exec.Command("zksh", "-q", "-server", server), "PAGER=cat >/dev/null; stty -a <&1; echo shown")
	r.expect(`CONNECTED\) 0\] `)
	for _, line := range []string{"ls -R /tree", "help lock"} { // a streamed text and a whole one
		r.typeIn(line + "\r")
		r.expect(`[^-]echo\b[\s\S]*shown\r\n`)
	}
	r.typeIn("quit\r")
	r.wantRestored(0)
}

// If a program changes the terminal's modes, zksh resets them before it runs the next program
// and before it exits.
func TestProgramLeavesModes(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	r := openRich(t, server)
	r.typeIn("lock /l -- stty raw -echo\r")
	r.expect(`CONNECTED\) 1\] `)
	r.typeIn("lock /l -- sh -c 'stty -a; echo shown'\r")
	r.expect(`[^-]icanon[\s\S]*[^-]echo\b[\s\S]*shown\r\n`)
	r.expect(`CONNECTED\) 2\] `)
	r.typeIn("lock /l -- sh -c 'stty raw -echo; echo begun; sleep 60'\r")
	r.expect(`begun`)
	zktest.Must(t, r.cmd.Process.Signal(syscall.SIGTERM))
	r.wantRestored(143)
}

// Programs inherit the three standard streams and no other file.
func TestProgramsInheritNoFiles(t *testing.T) {
	t.Parallel()
	r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	r.typeIn("lock /l -- sh -c 'ls -l /dev/fd/; echo end of list'\r")
	r.expect(`\x1b\[\?2004l`)
	if got := r.expect(`end of list\r\n`); strings.Contains(got, "/dev/tty\r\n") {
		t.Errorf("%q", got)
	}
}

// In the plain editor, Ctrl-D at a question answers no; Ctrl-D at the prompt exits.
func TestCtrlDAtAPlainQuestion(t *testing.T) {
	t.Parallel()
	c := openConsole(t, "-q", "-server", zktest.Sandbox(t, sandbox.Options{}).Addr())
	c.expect(connected)
	c.run("create /a", `^Created /a\n`)
	c.typeIn("deleteall /a\r")
	c.expect(`\[y/N\]`)
	c.typeIn("\x04")
	c.expect(anyPrompt)
	c.run("ls /", `^\[a, zookeeper\]\n`)
	c.typeIn("\x04")
	c.wantStatus(0)
}
