//go:build unix

package playground

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The meeting file is the user's own: what stands in its place is refused and left
// as it is.
func TestMeetingFileIsRefused(t *testing.T) {
	precious := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, make := range map[string]func(path string) error{
		"is a symbolic link":    func(path string) error { return os.Symlink(precious, path) },
		"is not a regular file": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"is a directory":        func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "zksh"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, "zksh", "sandbox")); err != nil {
			t.Fatal(err)
		}
		for _, listen := range []string{"", "127.0.0.1:0"} {
			p, err := Open(dir, listen, "")
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

// The first one runs the sandbox, the next one joins it and learns of its end.
func TestJoin(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "", "3.4"); err == nil || !strings.Contains(err.Error(), "another terminal answers as 3.8") {
		t.Errorf("joining one that answers otherwise: %v", err)
	}
	if same, err := Open(dir, "", "3.8"); err != nil || same.Addr != first.Addr || same.Close() != nil {
		t.Errorf("joining one that answers as wished: %v", err)
	}
	if first.Joined() || !second.Joined() || first.Addr != second.Addr {
		t.Errorf("the first joined: %v, the second: %v; they are at %s and %s", first.Joined(), second.Joined(), first.Addr, second.Addr)
	}
	if err := second.Pause(true); err != errJoined {
		t.Errorf("pausing another's: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	<-second.Ended()
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
