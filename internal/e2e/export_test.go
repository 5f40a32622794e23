//go:build unix

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A dump comes whole on a terminal, however long its server takes: progress that is drawn
// there would wait for the end of the dump, and the dump for it.
func TestExportOnATerminal(t *testing.T) {
	t.Parallel()
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	lines(t, p.Addr(), "create /app\ncreate /app/a x\n")
	p.Delay(200 * time.Millisecond)
	r := startRich(t, exec.Command("zksh", "-server", p.Addr(), "export", "-R", "/app"))
	r.expect(`"path":"/app/a".*\r?\n\{"end":.*\r?\n\{"sha256":"[0-9a-f]{64}"\}\r?\n`)
	wantExit(t, r.cmd, 0)
	if shown := r.shown(); !strings.HasPrefix(shown, `{"zksh":"dump"`) {
		t.Errorf("beside the dump: %q", shown)
	}
}
