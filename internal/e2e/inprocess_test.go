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

// The helpers in this file run shells inside the test process. This costs a tenth of running the
// program under the race detector, which touches megabytes of memory before main begins.

// A scriptResult is the output and exit status of a script.
type scriptResult struct {
	out, err string
	status   int
}

// closeTimeout matches the final message of a shell whose server does not answer: the library
// allows its Close one second, and the shell's exit three.
var closeTimeout = regexp.MustCompile(`(?m)^(\S+: )?closing the session: context deadline exceeded\n\z`)

// withoutCloseTimeout removes that message from errs.
func withoutCloseTimeout(errs string) string { return closeTimeout.ReplaceAllString(errs, "") }

// runScript runs a script in this process.
func runScript(t rapid.TB, servers, script string, cfg shell.Config) scriptResult {
	var out, errs bytes.Buffer
	status := runScriptTo(context.Background(), t, servers, strings.NewReader(script), cfg, &out, &errs)
	return scriptResult{out.String(), errs.String(), status}
}

// A dialogue is a script that the test sends line by line while it reads the answers.
type dialogue struct {
	io.Writer // input of the script
	interrupt func()
	ended     chan scriptResult

	mu  sync.Mutex
	out strings.Builder
}

func openDialogue(t *testing.T, servers string, cfg shell.Config) *dialogue {
	in, lines := io.Pipe()
	t.Cleanup(func() { lines.Close() }) // ends the script, if it has not ended
	ctx, interrupt := context.WithCancelCause(t.Context())
	d := &dialogue{Writer: lines, interrupt: func() { interrupt(exit.SignalCause(os.Interrupt)) }, ended: make(chan scriptResult, 1)}
	go func() {
		var errs bytes.Buffer
		status := runScriptTo(ctx, t, servers, in, cfg, dialogueWriter{d}, &errs)
		d.ended <- scriptResult{d.shown(), errs.String(), status}
	}()
	return d
}

type dialogueWriter struct{ d *dialogue }

func (a dialogueWriter) Write(p []byte) (int, error) {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	return a.d.out.Write(p)
}

func (d *dialogue) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

// until waits until an answer has been printed: then the line was executed, and the shell knows
// it.
func (d *dialogue) until(t *testing.T, answer string) {
	t.Helper()
	zktest.Eventually(t, "the answer "+answer, func() bool { return strings.Contains(d.shown(), answer) })
}

func runScriptTo(ctx context.Context, t rapid.TB, servers string, script io.Reader, cfg shell.Config, out, errs io.Writer) (status int) {
	locks := lockcmd.New()
	cfg.Session = openSession(t, servers)
	locks.Fence(cfg.Session, cfg.KeepGoing)
	return newShell(cfg, locks, out, errs).RunLines(ctx, "script", script)
}

// runAt runs one command in another session on servers, to prepare znodes or inspect the result
// of a test. The command must succeed. It uses no fence.
func runAt(t *testing.T, servers string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cfg := shell.Config{Session: openSession(t, servers)}
	if status := newShell(cfg, lockcmd.New(), &out, &errs).RunCommand(zktest.Within(t), args); status != 0 {
		t.Fatalf("%q: status %d: %s", args, status, errs.String())
	}
	return out.String()
}

// runLinesAt runs a script in another session on servers. The script must succeed.
func runLinesAt(t *testing.T, servers, script string) {
	t.Helper()
	if got := runScript(t, servers, script, shell.Config{StopAtError: true, Window: 64}); got.status != 0 {
		t.Fatal(got)
	}
}

// openSession opens a session for a shell, which closes it when it ends.
func openSession(t rapid.TB, servers string) *zkconn.Session {
	session, err := zkconn.Open(zkconn.Config{Servers: servers, Timeout: time.Minute}) // with a lock, a server that is silent for a sixteenth of this makes the client move
	zktest.Must(t, err)
	return session
}

// newShell returns a shell with all commands.
func newShell(cfg shell.Config, locks *lockcmd.Table, out, errs io.Writer) *shell.Shell {
	cfg.Locks, cfg.Version = locks, "dev"
	cfg.Commands = everyCommand(locks)
	cfg.Out, cfg.Err = shell.Output{W: out}, shell.Output{W: errs}
	if cfg.Format == "" {
		cfg.Format = render.Text
	}
	return shell.New(cfg)
}
