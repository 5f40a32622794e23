//go:build unix

package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell"
	"github.com/zksh/zksh/shell/exit"
)

// Here shells run inside of the test's own process. It costs a tenth of what the program
// costs under the race detector, which touches megabytes of memory before main begins.

// played is all that a script shows for itself.
type played struct {
	out, err string
	status   int
}

// unclosed is told at the end where nobody answers: the library's Close has a second, and
// leaving has three.
var unclosed = regexp.MustCompile(`(?m)^(\S+: )?closing the session: context deadline exceeded\n\z`)

// butUnclosed leaves that out of what was told.
func butUnclosed(errs string) string { return unclosed.ReplaceAllString(errs, "") }

// play runs a script in this process.
func play(t rapid.TB, servers, script string, cfg shell.Config) played {
	var out, errs bytes.Buffer
	status := playTo(context.Background(), t, servers, strings.NewReader(script), cfg, &out, &errs)
	return played{out.String(), errs.String(), status}
}

// dialogue is a script that comes line by line and is answered meanwhile.
type dialogue struct {
	io.Writer // the lines
	interrupt func()
	ended     chan played

	mu  sync.Mutex
	out strings.Builder
}

func openDialogue(t *testing.T, servers string, cfg shell.Config) *dialogue {
	in, lines := io.Pipe()
	t.Cleanup(func() { lines.Close() }) // which ends the script, if nothing has
	ctx, interrupt := context.WithCancelCause(t.Context())
	d := &dialogue{Writer: lines, interrupt: func() { interrupt(exit.SignalCause(os.Interrupt)) }, ended: make(chan played, 1)}
	go func() {
		var errs bytes.Buffer
		status := playTo(ctx, t, servers, in, cfg, answersOf{d}, &errs)
		d.ended <- played{d.shown(), errs.String(), status}
	}()
	return d
}

type answersOf struct{ d *dialogue }

func (a answersOf) Write(p []byte) (int, error) {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	return a.d.out.Write(p)
}

func (d *dialogue) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// until waits for an answer: what it answers to is not only done, but known to be.
func (d *dialogue) until(t *testing.T, answer string) {
	t.Helper()
	zktest.Eventually(t, "the answer "+answer, func() bool { return strings.Contains(d.shown(), answer) })
}

func playTo(ctx context.Context, t rapid.TB, servers string, script io.Reader, cfg shell.Config, out, errs io.Writer) (status int) {
	locks := lockcmd.New()
	cfg.Session = sessionOf(t, servers)
	locks.Fence(cfg.Session, cfg.KeepGoing)
	return shellOf(cfg, locks, out, errs).RunLines(ctx, "script", script)
}

// at runs one command beside the program that a test is about: what makes or changes
// znodes for that to see, or looks at what it has made. It has to succeed, and no fence
// is asked for.
func at(t *testing.T, servers string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cfg := shell.Config{Session: sessionOf(t, servers)}
	if status := shellOf(cfg, lockcmd.New(), &out, &errs).RunCommand(zktest.Within(t), args); status != 0 {
		t.Fatalf("%q: status %d: %s", args, status, errs.String())
	}
	return out.String()
}

// lines runs a script that has to succeed, as at does a command.
func lines(t *testing.T, servers, script string) {
	t.Helper()
	if got := play(t, servers, script, shell.Config{StopAtError: true, Window: 64}); got.status != 0 {
		t.Fatal(got)
	}
}

// sessionOf opens the session of a shell, which closes it at its end.
func sessionOf(t rapid.TB, servers string) *zkconn.Session {
	session, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: time.Minute}) // with a lock it is moved by a silence of a sixteenth of that
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// shellOf makes a shell with all commands.
func shellOf(cfg shell.Config, locks *lockcmd.Table, out, errs io.Writer) *shell.Shell {
	cfg.Locks, cfg.Version = locks, "dev"
	cfg.Commands = everyCommand(locks)
	cfg.Out, cfg.Err = shell.Output{W: out}, shell.Output{W: errs}
	if cfg.Format == "" {
		cfg.Format = render.Text
	}
	return shell.New(cfg)
}
