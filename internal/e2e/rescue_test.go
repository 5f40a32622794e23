//go:build unix

package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// The manual's example that restores a subtree from a server's snapshot works.
func TestDocRescue(t *testing.T) {
	t.Parallel()
	eachDoc(t, "console rescue", rescue)
}

func rescue(t *testing.T, blocks []fenced) {
	server := zktest.Start(t, zktest.Heap(64))
	s := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	for _, z := range []struct{ path, data string }{
		{"/shop", ""}, {"/shop/orders", ""}, {"/shop/orders/7", "3 apples"}, {"/shop/orders/8", "12 pears"}, {"/shop/carts", ""}, {"/shop/carts/17", ""},
	} {
		mode := zkconn.CreateMode{Ephemeral: z.path == "/shop/carts/17"}
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create(z.path, []byte(z.data), zkconn.OpenACL(), mode)))
	}
	server.Restart() // makes the server write a snapshot
	dir := t.TempDir()
	copySnapshot(t, server, filepath.Join(dir, "version-2", "snapshot.a3f"))
	if r := runProgram(t, "", "-server", server.Addr(), "-q", "deleteall", "/shop"); r.status != 0 {
		t.Fatal(r)
	}
	runDoc(t, blocks, dir, "zksh ", "ZKSH_SERVER="+server.Addr()+" zksh ") // not an option, which --sandbox would reject
}

// copySnapshot copies the latest snapshot of a server to the file name.
func copySnapshot(t *testing.T, server *zktest.Server, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(server.Snapshots(), "snapshot.*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	last := slices.MaxFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	zktest.Must(t, os.Mkdir(filepath.Dir(name), 0o700))
	zktest.Must(t, os.WriteFile(name, []byte(readFile(t, last)), 0o600))
}
