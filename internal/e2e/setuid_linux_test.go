package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A program that runs as another user runs under the lock as it does without.
func TestSetuidProgram(t *testing.T) {
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
	ran := filepath.Join(t.TempDir(), "ran") // only root can create it
	cmd := exec.Command("zksh", "-server", box.Addr(), "lock", "/l", "--", touch, ran)
	cmd.Path, cmd.Env = zksh, homeEnv(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("the program has not run: %v", err)
	}
}
