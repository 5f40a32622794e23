package transfer_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// If the connection is cut before or after any request of mirror, the exit status is 0 only if everything
// was copied, and the next run copies the rest.
func TestMirrorCut(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	s, other := open(t, here), open(t, there)
	n := 0
	requests := cutAtEachRequest(t, func(prepare func(*zktest.Proxy)) []int32 {
		n++
		src, dst := fmt.Sprint("/src", n), fmt.Sprint("/dst", n)
		all := publicTree(uint64(n), src)
		putTree(t, s, all)
		putTree(t, other, publicTree(uint64(n)+1000, dst))
		proxy := zktest.NewProxy(t, there)
		prepare(proxy)
		status, _, remarks := run(t.Context(), open(t, here), "mirror "+src+" "+proxy.Addr()+":"+dst)
		if status != 0 && status != commands.StatusNoServer || (status == 0) != (remarks.String() == "") {
			t.Errorf("trial %d: status %d: %s", n, status, remarks)
		}
		if d := firstDifference(t, all, other, dst); status == 0 && d != "" {
			t.Errorf("trial %d: status 0, but %s", n, d)
		}
		must(t, here, "mirror "+src+" "+there+":"+dst)
		if d := firstDifference(t, all, other, dst); d != "" {
			t.Errorf("trial %d: %s", n, d)
		}
		return proxy.Requests()
	})
	if !slices.ContainsFunc(requests, jute.Writes) {
		t.Errorf("no write was cut: %v", requests)
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

// mirror does not mirror /zookeeper.
func TestMirrorOfARoot(t *testing.T) {
	here, there := zktest.Sandbox(t, sandbox.Options{}).Addr(), zktest.Sandbox(t, sandbox.Options{}).Addr()
	other := open(t, there)
	must(t, here, "create /first\nsetquota -n 9 /first\nmirror / "+there+":/")
	zktest.Must(t, zkconn.Exec(t.Context(), other, zkconn.Exists("/first")))
	if list, err := zkconn.Do(t.Context(), other, zkconn.List("/zookeeper/quota")); err != nil || len(list.Names) > 0 {
		t.Errorf("%q, %v", list.Names, err)
	}
}
