package dump_test

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// copyFiles copies the files of a kind ("snapshot" or "log") and returns the copies, oldest first.
func copyFiles(t *testing.T, from, to, kind string) (copied []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, kind+".*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(f)), data, 0o600)
		}
		zktest.Must(t, err)
		copied = append(copied, filepath.Join(to, filepath.Base(f)))
	}
	return copied
}

// Open reads the last state of a server from its data directory, whichever snapshot it can read.
func TestDataDir(t *testing.T) {
	server := zktest.Start(t)
	s := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	fill(t, s)
	server.Restart() // which writes a snapshot
	zktest.Eventually(t, "the session is back", func() bool {
		err := zkconn.Exec(t.Context(), s, zkconn.Exists("/"))
		return err == nil
	})
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			zktest.Must(t, err)
		}
	}
	create := func(path, data string, mode zkconn.CreateMode) error {
		err := zkconn.Exec(t.Context(), s, zkconn.Create(path, []byte(data), zkconn.OpenACL(), mode))
		return err
	}
	setErr := zkconn.Exec(t.Context(), s, zkconn.SetData("/t/plain", []byte("newest"), -1))
	aclErr := zkconn.Exec(t.Context(), s, zkconn.SetACL("/t/a:b", zk.WorldACL(zk.PermAll&^zk.PermCreate), -1))
	_, multiErr := s.Multi(t.Context(), []zkconn.Change{zkconn.Creation("/t/m", nil, zkconn.OpenACL(), zkconn.CreateMode{}), zkconn.Removal("/t/big", -1)})
	must(setErr, aclErr, multiErr,
		create("/t/new", "x", zkconn.CreateMode{}), create("/t/new/below", "y", zkconn.CreateMode{}),
		create("/t/new/ttl", "", zkconn.CreateMode{TTL: time.Hour}), create("/t/new/cont", "", zkconn.CreateMode{Container: true}),
		create("/t/new/e", "", zkconn.CreateMode{Ephemeral: true}),
		zkconn.Exec(t.Context(), s, zkconn.Delete("/t/.hidden/below", -1)), zkconn.Exec(t.Context(), s, zkconn.Delete("/t/.hidden", -1)), create("/t/.hidden", "again", zkconn.CreateMode{}))
	if err := zkconn.Exec(t.Context(), s, zkconn.Delete("/t/none", -1)); err == nil { // a rejected request is logged, too
		t.Fatal("it was there")
	}
	other := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 20 * time.Second})
	err := zkconn.Exec(t.Context(), other, zkconn.Create("/t/gone", nil, zkconn.OpenACL(), zkconn.CreateMode{Ephemeral: true}))
	must(err, other.Close(t.Context()))
	want := readServer(t, s, "/")

	dir := t.TempDir()
	version := filepath.Join(dir, "version-2")
	must(os.Mkdir(version, 0o700))
	snapshots := copyFiles(t, server.Snapshots(), version, "snapshot")
	logs := copyFiles(t, server.Logs(), version, "log")
	same := func(name string) {
		t.Helper()
		tree, err := dump.Open(t.Context(), name)
		zktest.Must(t, err)
		defer tree.Close()
		var got []*dump.Znode
		for z, err := range tree.Znodes("/") {
			zktest.Must(t, err)
			if z.Kind != dump.Persistent {
				z.Kind, z.TTL = dump.KindOf(z.Stat), 0
			}
			got = append(got, z)
		}
		equal := gocmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })
		if diff := gocmp.Diff(want, got, equal); diff != "" {
			t.Error(diff)
		}
		if tree.Header.Zxid == 0 || tree.Header.Zxid != tree.Trailer.Zxid {
			t.Errorf("%+v %+v", tree.Header, tree.Trailer)
		}
	}
	same(dir)
	same(version)

	// A truncated newest snapshot is skipped, as by a server.
	last := snapshots[len(snapshots)-1]
	whole, err := os.ReadFile(last)
	must(err, os.WriteFile(last, whole[:len(whole)/2], 0o600))
	same(dir)
	must(os.Remove(last))
	same(dir)

	// Open notices that a log is missing.
	if len(logs) < 2 {
		t.Fatalf("logs: %q", logs)
	}
	must(os.Remove(logs[0]))
	if _, err := dump.Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), " are missing from the logs") {
		t.Errorf("got %v", err)
	}
	for _, name := range logs[1:] {
		must(os.Remove(name))
	}
	for _, name := range snapshots[:len(snapshots)-1] {
		must(os.WriteFile(name, []byte("ZKSN"), 0o600))
	}
	if _, err := dump.Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("got %v", err)
	}
}
