//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package shell

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/line"
)

// panicVariable is an environment variable. In the process that is to panic, it names the place.
const panicVariable = "ZKSH_TEST_PANIC"

// A panic in any goroutine of the shell restores the terminal from raw mode. The panic happens in
// another process.
func TestPanicRestoresTheTerminal(t *testing.T) {
	if where := os.Getenv(panicVariable); where != "" {
		panicIn(where)
		return
	}
	for where, keys := range map[string]string{"prompt": "x", "completer": "x", "command": "panic\r", "reader": "\x12x", "cache": "ls /"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			master, slave, err := pty.Open()
			zktest.Must(t, err)
			defer master.Close()
			before := modes(t, slave)
			cmd := exec.Command(os.Args[0], "-test.run=^TestPanicRestoresTheTerminal$")
			cmd.Env = append(os.Environ(), panicVariable+"="+where, "TERM=xterm", "NO_COLOR=")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			zktest.Must(t, cmd.Start())
			late := time.AfterFunc(zktest.Patience, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			shown := make(chan string, 1)
			go func() { // returns when the terminal is closed
				var b strings.Builder
				buf := make([]byte, 4096)
				typed := false
				for {
					n, err := master.Read(buf)
					b.Write(buf[:n])
					if !typed && strings.Contains(b.String(), ") 0] ") {
						typed = true
						_, _ = master.WriteString(keys) // a failed write fails the test below
					}
					if err != nil {
						shown <- b.String()
						return
					}
				}
			}()
			err = cmd.Wait()
			after := modes(t, slave)
			slave.Close()
			text := <-shown
			if err == nil || !strings.Contains(text, "panic: ") {
				t.Fatalf("it did not panic: %v\n%s", err, text)
			}
			if !strings.Contains(text, "\x1b[?2004h") {
				t.Error("the terminal was never taken over; the test shows nothing")
			}
			if before != after {
				t.Errorf("the terminal was\n%s and is\n%s", before, after)
			}
		})
	}
}

func modes(t *testing.T, tty *os.File) string {
	t.Helper()
	cmd := exec.Command("stty", "-a")
	cmd.Stdin = tty
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("stty:", err)
	}
	return string(out)
}

// panicIn runs an interactive shell that panics at the given place.
func panicIn(where string) {
	blow := func(at string) {
		if at == where {
			panic("in the " + where)
		}
	}
	session, err := zkconn.Open(zkconn.Config{Servers: "127.0.0.1:1", Timeout: time.Second})
	if err != nil {
		panic(err)
	}
	drawn := 0
	s := New(Config{
		Session: session, Out: Output{W: os.Stdout, TTY: true}, Err: Output{W: os.Stderr, TTY: true}, Quiet: true,
		Locks: fakeLocks{func() int {
			if drawn++; drawn > 1 { // the terminal is not raw yet when the first prompt is drawn
				blow("prompt")
			}
			return 0
		}},
		Commands: [][]*commands.Command{commands.All(), {{
			Name: "panic", Effect: commands.Offline,
			Flags: commands.NoFlags(func(context.Context, *commands.Env, []string) error {
				blow("command")
				return nil
			}),
		}}},
	})
	help := line.Assistant{Recall: s.recall, Complete: func(before string) line.Proposals {
		blow("completer")
		s.completer.nodes.source = panicSource{s.completer.nodes.source, blow}
		return s.completer.complete(before)
	}}
	if where == "reader" {
		help.Recall = nil // a search, which runs in the goroutine that reads keys, dereferences it
	}
	e := line.New(os.Stdin, os.Stdout, os.Getenv, help, nil)
	s.RunEditor(context.Background(), e)
}

// panicSource is a nodeSource that panics in the goroutine of a request.
type panicSource struct {
	nodeSource
	blow func(string)
}

func (p panicSource) Names(context.Context, string) ([]string, error) {
	p.blow("cache")
	return nil, io.EOF
}
