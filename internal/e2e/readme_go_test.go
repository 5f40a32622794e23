//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// goFence matches the README's Go programs.
var goFence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// The Go program of the README compiles, and does what its lines say.
func TestReadmeGoProgram(t *testing.T) {
	t.Parallel()
	programs := goFence.FindAllStringSubmatch(readFile(t, readme), -1)
	if len(programs) != 1 {
		t.Fatalf("%s has %d Go programs, want one", readme, len(programs))
	}
	const server = "localhost:2181"
	text := strings.ReplaceAll(programs[0][1], server, zktest.Sandbox(t, sandbox.Options{}).Addr())
	if text == programs[0][1] {
		t.Fatalf("it does not connect to %s", server)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(zktest.Within(t), "go", "run", file)
	cmd.Dir = "../.." // whose module has the packages
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`^\S+ \S+ alone until ctx is done, with token 0x[0-9a-f]+\n$`).Match(out) {
		t.Errorf("%v, and it says:\n%s", err, out)
	}
}
