//go:build unix

package playground

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/zktest"
)

// Open rejects a meeting file that is not a regular file, and does not change what is in its
// place.
func TestMeetingFileIsRefused(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	zktest.Must(t, os.WriteFile(precious, []byte("data"), 0o600))
	for want, make := range map[string]func(path string) error{
		"is a symbolic link":    func(path string) error { return os.Symlink(precious, path) },
		"is not a regular file": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"is a directory":        func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		zktest.Must(t, os.Mkdir(filepath.Join(dir, "zksh"), 0o700))
		zktest.Must(t, make(filepath.Join(dir, "zksh", "sandbox")))
		for _, listen := range []string{"", "127.0.0.1:0"} {
			p, err := Open(dir, listen, "", false)
			if err == nil || !strings.Contains(err.Error(), "sandbox: ") || !strings.Contains(err.Error(), want) {
				t.Errorf("listening on %q: %v; want that it %s", listen, err, want)
			}
			if err == nil && p.Close() != nil {
				t.Error("it cannot be closed")
			}
		}
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "data" {
		t.Errorf("what the link points to: %q, %v", text, err)
	}
}
