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

// A window with a shell in it hangs up twice: the system tells, and so does the
// shell. What zksh holds is gone all the same.
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
	zktest.Eventually(t, "the ephemeral znode is gone", func() bool { return at(t, server, "ls", "/") == "[zookeeper]\n" })
}

// SIGTERM ends the pager with the shell, a pipeline too, and leaves the terminal as
// it was.
func TestTerminatedInThePager(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	plant(t, server, 40)
	for _, pager := range []string{"less", "cat | less"} {
		r := startRich(t, exec.Command("zksh", "-q", "-server", server), "PAGER="+pager)
		r.expect(`CONNECTED\) 0\] `)
		r.typeIn("ls -R /tree\r")
		r.expect(`n0000000009`)
		zktest.Eventually(t, "the pager has the terminal", func() bool { return r.terminalModes() != r.modes })
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.wantRestored(143)
		zktest.Eventually(t, pager+" is gone", func() bool { return errors.Is(unix.Kill(-r.cmd.Process.Pid, 0), unix.ESRCH) })
	}
}

// The modes that a program leaves are not those of the next one, nor of whoever
// started zksh.
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
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r.wantRestored(143)
}

// Programs get the three streams and no other file.
func TestProgramsInheritNoFiles(t *testing.T) {
	t.Parallel()
	r := openRich(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	r.typeIn("lock /l -- sh -c 'ls -l /dev/fd/; echo end of list'\r")
	r.expect(`\x1b\[\?2004l`)
	if got := r.expect(`end of list\r\n`); strings.Contains(got, "/dev/tty\r\n") {
		t.Errorf("%q", got)
	}
}

// The plain editor goes on after Ctrl-D at a question, and leaves at the prompt.
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
