package underlock

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/zksh/zksh/internal/zktest"
)

// A tool is a program of another project that runs under a lock, or that runs zksh.
type tool struct {
	t    *testing.T
	dir  string
	lock string // shell words that run a command under a lock
}

func newTool(t *testing.T) *tool {
	t.Helper()
	t.Parallel()
	zksh, _ := needPrograms(t)
	dir := t.TempDir()
	return &tool{t, dir, zksh + " -q -server " + newServer(t) + " lock /tool --"}
}

// write creates a file, with LOCK replaced by the words that run a command under a lock.
func (c *tool) write(name, text string) {
	c.t.Helper()
	zktest.Must(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(strings.ReplaceAll(text, "LOCK", c.lock)), 0o755))
}

// want runs a shell command, with LOCK replaced. It must print text that matches the pattern, and
// end with this status.
func (c *tool) want(command, pattern string, status int) {
	c.t.Helper()
	got := run(c.t, c.dir, "bash", "-c", strings.ReplaceAll(command, "LOCK", c.lock))
	if !regexp.MustCompile(pattern).MatchString(got.out) || got.status != status {
		c.t.Errorf("%s: status %d, want %d and %s; it printed %s", command, got.status, status, pattern, got.out)
	}
}

// A make under a lock gets jobs from the make above: four jobs wait for each other, so they end only
// if all run at the same time.
func TestMakeJobserver(t *testing.T) {
	c := newTool(t)
	zktest.NeedProgram(t, "make", "make")
	c.write("outer", "all:\n\t+@LOCK $(MAKE) -s -f inner\n")
	c.write("inner", "all: a b c d\na b c d:\n\t@touch $@; timeout 60 sh -c "+
		"'until [ -e a -a -e b -a -e c -a -e d ]; do sleep 0.02; done'\n")
	c.want("make -s -j4 -f outer; s=$?; echo status $s; exit $s", `^status 0\n$`, 0)
}

// bats reads the results of its tests from file 3. It waits until no process has that file.
func TestBats(t *testing.T) {
	c := newTool(t)
	zktest.NeedProgram(t, "bats", "bats")
	c.write("locks.bats", `@test "prints under a lock" {
	run LOCK sh -c 'echo to the user >&3; echo out; exit 3'
	[ "$status" -eq 3 ]
	[ "$output" = out ]
}
@test "a second one" {
	LOCK true
}
`)
	c.want("bats --tap locks.bats", `(?s)to the user\n.*ok 1 prints under a lock\n.*ok 2 a second one\n`, 0)
	c.write("plain.bats", "@test \"prints\" {\n\techo to the user >&3\n}\n@test \"fails\" {\n\tfalse\n}\n")
	c.want("LOCK bats --tap plain.bats", `(?s)^1\.\.2\n.*to the user\n.*ok 1 prints\nnot ok 2 fails\n`, 1)
}

func TestFiles(t *testing.T) {
	c := newTool(t)
	c.want(`exec 3>&1; LOCK sh -c 'echo progress >&3; exit 4'`, `^progress\n$`, 4)
	c.want(`LOCK cat <(echo from a pipe) /dev/fd/9 9<<<'from file 9'`, `^from a pipe\nfrom file 9\n$`, 0)
	c.want(`echo in | LOCK tr a-z A-Z | cat; exit ${PIPESTATUS[1]}`, `^IN\n$`, 0)
	c.want(`LOCK yes | head -1; exit ${PIPESTATUS[0]}`, `^y\n$`, 141)
	c.want(`coproc LOCK cat; echo ping >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo got $x
		eval "exec ${COPROC[1]}>&-"; wait $COPROC_PID`, `^got ping\n$`, 0)
}

// script gives a command a terminal and a session of its own.
func TestScript(t *testing.T) {
	c := newTool(t)
	zktest.NeedProgram(t, "script", "bsdutils")
	c.want(`LOCK script -qec 'test -t 0 && test -t 1 && echo terminal; exit 6' /dev/null </dev/null`, `terminal`, 6)
	c.write("locked", "#!/bin/sh\nexec LOCK sh -c 'test -t 0 && test -t 1 && echo terminal; exit 7'\n")
	c.want(`script -qec ./locked /dev/null </dev/null`, `terminal`, 7)
}

// A program of another user is killed with zksh, if zksh runs as root.
func TestSudo(t *testing.T) {
	c := newTool(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can use sudo without a password")
	}
	zktest.NeedProgram(t, "sudo", "sudo")
	c.want(`cd /; LOCK sudo -n -u nobody sh -c 'id -un; exit 8'`, `^nobody\n$`, 8)
	args := strings.Fields(c.lock)
	const endless = "sleep 1000.0625"
	script := "trap '' TERM HUP; echo begun; " + endless + "; " + endless
	cmd := exec.Command("zksh", append(args[1:], "sudo", "-n", "-u", "nobody", "sh", "-c", script)...)
	cmd.Dir, cmd.Env = "/", environment(c.dir)
	out, err := cmd.StdoutPipe()
	zktest.Must(t, err)
	zktest.Must(t, cmd.Start())
	left := func() []int { return processes(t, strings.ReplaceAll(endless, " ", "\x00")) }
	t.Cleanup(func() { killAll(left()) }) // only if the test has failed
	begun := make([]byte, len("begun\n"))
	_, err = io.ReadFull(out, begun)
	zktest.Check(t, err)
	zktest.Must(t, cmd.Process.Kill())
	discard(out)   // ends when no process has the pipe
	_ = cmd.Wait() // was killed
	zktest.Eventually(t, "nothing is left", func() bool { return len(left()) == 0 })
}

// systemd-run starts a command as a child of its own.
func TestSystemdScope(t *testing.T) {
	c := newTool(t)
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("NOT TESTED: systemd does not run here")
	}
	c.want(`LOCK systemd-run --quiet --scope sh -c 'echo in scope; exit 9'`, `in scope\n`, 9)
}

// ssh runs under a lock, and zksh runs under ssh.
func TestSSH(t *testing.T) {
	c := newTool(t)
	zktest.NeedProgram(t, "ssh", "openssh-client")
	address := serveSSH(t, c.dir)
	host, port, err := net.SplitHostPort(address)
	zktest.Must(t, err)
	options := "-F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null " +
		"-o LogLevel=ERROR -p " + port + " anyone@" + host
	c.want(`echo input | LOCK ssh `+options+` 'cat; exit 11'`, `^input\n$`, 11)
	c.write("locked", "#!/bin/sh\nexec LOCK sh -c 'cat; exit 12'\n")
	c.want(`echo input | ssh `+options+` ./locked`, `^input\n$`, 12)
}

// serveSSH starts an SSH server, whose commands run in dir, until the end of the test. It accepts
// every user.
func serveSSH(t *testing.T, dir string) (address string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	zktest.Must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	zktest.Must(t, err)
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	var running sync.WaitGroup
	running.Go(func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { // ends with the client
				defer conn.Close()
				server, channels, requests, err := ssh.NewServerConn(conn, config)
				if err != nil {
					t.Error("ssh:", err)
					return
				}
				defer server.Close()
				running.Go(func() { ssh.DiscardRequests(requests) }) // ends with the connection
				for offered := range channels {
					channel, asked, err := offered.Accept()
					if err != nil {
						t.Error("ssh:", err)
						return
					}
					for r := range asked {
						if r.Type == "exec" {
							zktest.Check(t, r.Reply(true, nil))
							running.Go(func() { executeSSH(t, dir, channel, r.Payload[4:]) }) // ends with the command
						} else if r.WantReply {
							zktest.Check(t, r.Reply(r.Type == "env", nil))
						}
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		zktest.Check(t, listener.Close())
		running.Wait()
	})
	return listener.Addr().String()
}

// executeSSH runs the command that a client has sent, and sends the exit status.
func executeSSH(t *testing.T, dir string, channel ssh.Channel, command []byte) {
	defer channel.Close()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	cmd := zktest.Command(ctx, t, "sh", "-c", string(command))
	cmd.Dir, cmd.Env = dir, environment(dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, syscall.EPIPE) {
		t.Error("ssh:", err)
		return
	}
	status := struct{ Status uint32 }{uint32(cmd.ProcessState.ExitCode())}
	_, err = channel.SendRequest("exit-status", false, ssh.Marshal(status))
	zktest.Check(t, err)
}
