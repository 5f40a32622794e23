//go:build unix

package undo

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// undo ignores files that another user could have put into the store, and FIFOs, and then makes the
// folder private.
func TestPlantedInTheStore(t *testing.T) {
	h := newSandboxShell(t)
	zktest.Must(t, os.Chmod(h.store.dir, 0o777))
	for _, name := range []string{"3.json", "4.dump"} {
		zktest.Must(t, syscall.Mkfifo(filepath.Join(h.store.dir, name), 0o600))
	}
	for _, name := range []string{"9223372036854775807.json", "4.json"} {
		zktest.Must(t, os.WriteFile(filepath.Join(h.store.dir, name), []byte(`{"znodes":1,"command":"set","path":"/"}`), 0o600))
	}
	h.fails("undo 3", "not a regular file")
	h.do("undo -l", "create /a one")
	e, err := h.store.entry(4)
	zktest.Must(t, err)
	e.Servers, e.Path = h.env.Session.Servers().Hosts, "/a"
	zktest.Must(t, h.store.write(e))
	h.fails("undo 4", "not a regular file")
	h.do("set /a two", "undo 5")
	for _, name := range []string{"3.json", "4.dump"} { // not removed: each may belong to the only copy of a subtree
		if _, err := os.Lstat(filepath.Join(h.store.dir, name)); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(h.store.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if node, err := zkconn.Do(t.Context(), h.env.Session, zkconn.GetData("/a")); err != nil || string(node.Data) != "one" {
		t.Errorf("%q, %v", node.Data, err)
	}
}
