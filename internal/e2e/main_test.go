// Package e2e runs the built program as its users do: by scripts, by pipes, and
// through a terminal.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// TestMain builds the program, under the race detector if the tests are, and
// puts it first on the path.
func TestMain(m *testing.M) {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	// A program built with -race sleeps for a second at its end unless told not to.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	zktest.Main(m)
}

func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "zksh-e2e-"); err != nil {
		return "", err
	}
	args := []string{"build", "-o", filepath.Join(dir, "zksh")}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../..")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
}
