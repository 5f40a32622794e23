//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// Each Go program in a document compiles and prints the expected output.
func TestDocGoProgram(t *testing.T) {
	t.Parallel()
	eachDoc(t, "go", func(t *testing.T, blocks []fenced) {
		for _, b := range blocks {
			runGo(t, b.text)
		}
	})
}

func runGo(t *testing.T, program string) {
	const server = "localhost:2181"
	text := strings.ReplaceAll(program, server, zktest.Sandbox(t, sandbox.Options{}).Addr())
	if text == program {
		t.Fatalf("it does not connect to %s", server)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	zktest.Must(t, os.WriteFile(file, []byte(text), 0o644))
	cmd := zktest.Command(zktest.Within(t), t, "go", "run", file)
	cmd.Dir = "../.." // the module of the packages that the program imports
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`^\S+ \S+ alone until ctx is done, with token 0x[0-9a-f]+\n$`).Match(out) {
		t.Errorf("%v, and it says:\n%s", err, out)
	}
}
