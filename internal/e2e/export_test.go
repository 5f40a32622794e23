//go:build unix

package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
)

// On a terminal, a dump is printed completely, however slow the server is. If zksh drew progress
// there, the progress would wait for the end of the dump and the dump for the progress.
func TestExportOnATerminal(t *testing.T) {
	t.Parallel()
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	runLinesAt(t, p.Addr(), "create /app\ncreate /app/a x\n")
	p.Delay(200 * time.Millisecond)
	r := startRich(t, exec.Command("zksh", "-server", p.Addr(), "export", "-R", "/app"))
	r.expect(`"path":"/app/a".*\r?\n\{"end":.*\r?\n\{"sha256":"[0-9a-f]{64}"\}\r?\n`)
	wantExit(t, r.cmd, 0)
	if shown := r.shown(); !strings.HasPrefix(shown, `{"zksh":"dump"`) {
		t.Errorf("beside the dump: %q", shown)
	}
}

// zksh does not mistake a server that resets the connection during an export for a reader that
// closed the pipe, although both errors look alike to the system. If the server comes back, the
// export goes on. Otherwise, it fails.
func TestExportOfServerThatEnds(t *testing.T) {
	t.Parallel()
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	var script strings.Builder
	script.WriteString("create /app\n")
	for i := range 2000 {
		fmt.Fprintf(&script, "create /app/%d\n", i)
	}
	runLinesAt(t, p.Addr(), script.String())
	p.Reset()
	for _, line := range []string{"export -R /app", "export -R /app | cat"} {
		cut := p.CutAfterSkipping(jute.OpGetACL, 1000)
		got := runScript(t, p.Addr(), line+"\n", shell.Config{Window: 64})
		<-cut
		znodes := strings.Count(got.out, `"path":"/app/`)
		if got.status != 0 || got.err != "" || znodes != 2000 && !strings.Contains(line, "cat") { // cat writes elsewhere
			t.Errorf("%s: status %d, %d znodes: %s", line, got.status, znodes, got.err)
		}
		cut = p.CutAfterAndRefuse(jute.OpGetACL, 1000)
		got = runScript(t, p.Addr(), line+"\n", shell.Config{Window: 64})
		<-cut
		p.Refuse(false)
		if got.status != commands.StatusNoServer || !strings.Contains(got.err, "connection refused") ||
			strings.Contains(got.err, "cannot write") || strings.Contains(got.out, `{"end"`) {
			t.Errorf("%s: status %d: %s", line, got.status, got.err)
		}
	}
}
