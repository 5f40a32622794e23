package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// zksh does not start a program that runs as another user, because zksh could not terminate it.
// Nobody's zksh therefore does not even ask for the lock, and root's zksh runs the program.
func TestSetuidProgramIsNotStarted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can install a setuid program and run zksh as another user")
	}
	const nobody = 65534
	dir := t.TempDir()
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		zktest.Must(t, os.Chmod(up, 0o755))
	}
	install := func(name string, mode os.FileMode) string {
		found, err := exec.LookPath(name)
		zktest.Must(t, err)
		data, err := os.ReadFile(found)
		zktest.Must(t, err)
		file := filepath.Join(dir, name)
		zktest.Must(t, os.WriteFile(file, data, 0o755))
		zktest.Must(t, os.Chmod(file, mode))
		return file
	}
	zksh, touch := install("zksh", 0o755), install("touch", 0o755|os.ModeSetuid)
	box := zktest.Sandbox(t, sandbox.Options{})
	ran := filepath.Join(t.TempDir(), "ran")
	args := []string{"-server", box.Addr(), "lock", "/l", "--", touch, ran}

	cmd := exec.Command("zksh", args...)
	cmd.Path, cmd.Env = zksh, homeEnv(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, _ := cmd.CombinedOutput() // its status is checked below
	want := touch + " was not started: it runs as another user (setuid)"
	if status := cmd.ProcessState.ExitCode(); status != 126 || !strings.Contains(string(out), want) {
		t.Errorf("status %d: %s", status, out)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program has run")
	}
	if got := runAt(t, box.Addr(), "ls", "/"); strings.Contains(got, "l,") || strings.Contains(got, "[l") {
		t.Errorf("zksh asked for the lock: %s", got)
	}

	cmd = exec.Command("zksh", args...)
	cmd.Env = homeEnv(dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("root's program has not run: %v", err)
	}
}
