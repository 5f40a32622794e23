//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// The line for cron on the page about trees mirrors a subtree. It prints nothing unless a run fails.
func TestDocMirror(t *testing.T) {
	t.Parallel()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	standby := zktest.Sandbox(t, sandbox.Options{})
	home := t.TempDir()
	config := filepath.Join(home, "config", "zksh")
	zktest.Must(t, os.MkdirAll(config, 0o700))
	zktest.Must(t, os.WriteFile(filepath.Join(config, "config"),
		fmt.Appendf(nil, "[standby]\nserver = %s\n", standby.Addr()), 0o600))
	file := docFile(t, "../../shell/manual/trees.md", "/etc/cron.d/mirror-app")
	_, command, found := strings.Cut(file, " * * * * app ")
	if !found {
		t.Fatalf("no line for cron in %q", file)
	}
	run := func(line string) (status int, printed string) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(homeEnv(home), "ZKSH_SERVER="+server)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // the exit status shows a failure
		return cmd.ProcessState.ExitCode(), out.String()
	}

	run("zksh create /app new; zksh create /app/added")
	for range 2 {
		if status, printed := run(command); status != 0 || printed != "" {
			t.Errorf("status %d: %s", status, printed)
		}
		if status, printed := run("zksh diff /app @standby:/app"); status != 0 {
			t.Errorf("status %d: %s", status, printed)
		}
	}
	run("zksh deleteall /app")
	if status, printed := run(command); status != 1 || !strings.Contains(printed, "/app") {
		t.Errorf("without the source: status %d: %s", status, printed)
	}
	if status, printed := run("zksh @standby exists /app"); status != 0 {
		t.Errorf("status %d: %s", status, printed)
	}
	zktest.Must(t, standby.Close())
	if status, printed := run(command); status != 69 || printed == "" {
		t.Errorf("without the destination: status %d: %s", status, printed)
	}
}
