//go:build unix

package e2e

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

var signalStatuses = map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131, syscall.SIGTERM: 143, syscall.SIGHUP: 143}

// A signal terminates a one-shot command that waits for its server.
func TestSignalWhileConnecting(t *testing.T) {
	t.Parallel()
	for sig, want := range signalStatuses {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		zktest.Must(t, err)
		cmd := exec.Command("zksh", "-server", ln.Addr().String(), "ls", "/")
		cmd.Env = homeEnv(t.TempDir())
		var errs strings.Builder
		cmd.Stderr = &errs
		zktest.Must(t, cmd.Start())
		conn, err := ln.Accept() // zksh is connecting
		if err == nil {
			err = cmd.Process.Signal(sig)
		}
		zktest.Must(t, err)
		wantExit(t, cmd, want)
		if n := strings.Count(errs.String(), "\n"); n != 1 {
			t.Errorf("%v: %d lines: %q", sig, n, errs.String())
		}
		conn.Close()
		ln.Close()
	}
}

// A pipeline is a zksh whose standard input and output are pipes that stay open.
type pipeline struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	end  io.Closer // closes the pipe that out reads
	errs strings.Builder
}

func openPipeline(t *testing.T, args ...string) *pipeline {
	t.Helper()
	return openPipelineIn(t, t.TempDir(), args...)
}

func openPipelineIn(t *testing.T, home string, args ...string) *pipeline {
	t.Helper()
	p := &pipeline{cmd: exec.Command("zksh", args...)}
	p.cmd.Env, p.cmd.Stderr = homeEnv(home), &p.errs
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	zktest.Must(t, err)
	p.out, p.end = bufio.NewReader(out), out
	zktest.Must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // if the test has failed; else it has already ended
	return p
}

// ask sends a line and expects the answer at once, although the pipe stays open.
func (p *pipeline) ask(t *testing.T, line, want string) {
	t.Helper()
	late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Kill() }) // unblocks the read below
	defer late.Stop()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := p.out.ReadString('\n'); got != want+"\n" || err != nil {
		t.Fatalf("%s: %q, %v; want %q", line, got, err, want)
	}
}

// A signal terminates a script that waits for its next line, and closes the session.
func TestSignalWhileWaitingForInput(t *testing.T) {
	t.Parallel()
	for sig, want := range signalStatuses {
		server := zktest.Shared(t).Addr() + newChroot(t)
		p := openPipeline(t, "-server", server)
		p.ask(t, "create -e /mine", "Created /mine")
		zktest.Must(t, p.cmd.Process.Signal(sig))
		wantExit(t, p.cmd, want)
		zktest.Eventually(t, "nothing is left behind", func() bool { return runAt(t, server, "ls", "/") == "[]\n" })
	}
}

// A signal before the first line is reported without a line number.
func TestSignalBeforeTheFirstLine(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	defer ln.Close()
	p := openPipeline(t, "-server", ln.Addr().String())
	conn, err := ln.Accept() // zksh is connecting
	zktest.Must(t, err)
	defer conn.Close()
	zktest.Must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	wantExit(t, p.cmd, 143)
	if p.errs.String() != "terminated\n" {
		t.Errorf("%q", p.errs.String())
	}
}

// A signal terminates a script during a command that hangs; later lines do not run.
func TestSignalInABatch(t *testing.T) {
	t.Parallel()
	chroot := newChroot(t)
	for sig, want := range signalStatuses {
		proxy := zktest.NewProxy(t, zktest.Shared(t).Addr())
		p := openPipeline(t, "-server", proxy.Addr()+chroot)
		p.ask(t, "ls /", "[]")
		proxy.Hold(true)
		// version needs no server, so once it has answered, the next line is in flight.
		p.ask(t, "version\nls /\ncreate /never", strings.TrimSpace(zksh(t, "version")))
		zktest.Must(t, p.cmd.Process.Signal(sig))
		wantExit(t, p.cmd, want)
		proxy.Hold(false)
		if reported := withoutCloseTimeout(p.errs.String()); strings.Count(reported, "\n") != 1 || !strings.HasPrefix(reported, "stdin:") {
			t.Errorf("%v: %q", sig, p.errs.String())
		}
	}
	if got := runAt(t, zktest.Shared(t).Addr()+chroot, "ls", "/"); got != "[]\n" {
		t.Errorf("made after the signal: %s", got)
	}
}
