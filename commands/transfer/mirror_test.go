package transfer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktree"
)

// With --watch, mirror follows all changes of the source, even if connections are lost.
func TestMirrorFollows(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	src, dst := zktest.NewProxy(t, here), zktest.NewProxy(t, there)
	s, other := open(t, here), open(t, there)
	putTree(t, s, publicTree(1, "/m"))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	mirror := open(t, src.Addr())
	wg.Go(func() { run(ctx, mirror, "mirror --watch /m "+dst.Addr()+":/m") })
	defer wg.Wait()
	defer stop()
	same := func() bool { return alike(t, s, other, "/m") }
	zktest.Eventually(t, "the first pass", same)
	for round := range 12 {
		root := fmt.Sprint("/m/round", round)
		putTree(t, s, publicTree(uint64(round), root))
		switch round % 3 {
		case 1:
			src.Cut()
		case 2:
			dst.Cut()
		}
		if _, err := zktree.Delete(t.Context(), s.Client, fmt.Sprint("/m/round", round-2), 100, nil); err != nil && round > 1 {
			t.Fatal(err)
		}
		for i := range 20 {
			zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.SetData(root, []byte(fmt.Sprint(i)), -1)))
		}
		zktest.Eventually(t, fmt.Sprint("round ", round), same)
	}
}

// If both the data and the ACL of a znode change, mirror, import and import -n count it once.
func TestChangesAreCountedOnce(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "dump")
	must(t, addr, "create /a old\ncreate /a/b old\ncreate /a/c old\nexport -R /a "+file)
	change := "set /a/b new\nsetAcl /a/b ip:10.9.8.7:r,world:anyone:cdrwa\nset /a/c new\nsetAcl /a/c ip:10.9.8.7:r,world:anyone:cdrwa\n"
	if got := must(t, addr, change+"mirror -y file:"+file+" /a"); !strings.HasSuffix(got, ": 0 created, 2 changed, 0 deleted\n") {
		t.Errorf("%q", got)
	}
	status, _, remarks := run(t.Context(), open(t, addr), change+"import -R -n --overwrite "+file+"\nimport -R --overwrite "+file)
	if status != 0 || strings.Count(remarks.String(), " at and below /a; 2 changed; 1 unchanged; ") != 2 {
		t.Errorf("status %d: %s", status, remarks)
	}
}

// import -n lists an ACL that must be set before children can be created.
func TestImportNamesOpenedACLs(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	file := filepath.Join(t.TempDir(), "dump")
	must(t, addr, "create /a a\ncreate /a/b b\nexport -R /a "+file+"\nsetAcl /a world:anyone:rwda")
	if got := must(t, addr, "import -R -n --overwrite "+file); got != "setAcl  /a\n" {
		t.Errorf("%q", got)
	}
}

// mirror --watch does not mirror changes below /zookeeper.
func TestMirrorOfARoot(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	s, other := open(t, here), open(t, there)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	mirror := open(t, here)
	wg.Go(func() { run(ctx, mirror, "mirror --watch / "+there+":/") })
	defer wg.Wait()
	defer stop()
	for _, path := range []string{"/first", "/zookeeper/quota/first", "/zookeeper/quota/first/zookeeper_limits", "/last"} {
		zktest.Must(t, zkconn.Exec(t.Context(), s, zkconn.Create(path, []byte("count=9,bytes=-1"), zkconn.OpenACL(), zkconn.CreateMode{})))
		if strings.HasPrefix(path, "/zookeeper") {
			continue
		}
		zktest.Eventually(t, path+" is mirrored", func() bool { // events arrive in order
			err := zkconn.Exec(t.Context(), other, zkconn.Exists(path))
			return err == nil
		})
	}
	if list, err := zkconn.Do(t.Context(), other, zkconn.List("/zookeeper/quota")); err != nil || len(list.Names) > 0 {
		t.Errorf("%q, %v", list.Names, err)
	}
}

// alike reports whether a tree is the same on two servers.
func alike(t *testing.T, s, other *zkconn.Session, root string) bool {
	t.Helper()
	for range zktree.Compare(zktree.ServerTree(t.Context(), s.Client, root, nil), zktree.ServerTree(t.Context(), other.Client, root, nil)) {
		return false
	}
	return true
}
