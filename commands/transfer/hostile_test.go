package transfer_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// A file is incomplete if znodes could not be read when it was written. Nothing is deleted because
// it is missing from an incomplete file.
func TestFileThatLacksSomething(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	s := open(t, addr)
	putTree(t, s, []*dump.Znode{{Path: "/a", ACL: anyone, Data: []byte("old")}, {Path: "/a/b", ACL: anyone, Data: []byte("worth much")}, {Path: "/a/c", ACL: anyone}})
	file := filepath.Join(t.TempDir(), "dump")
	w, err := dump.Create(file, dump.Header{Root: "/a"})
	if err == nil {
		err = w.Write(&dump.Znode{Path: "/a", ACL: anyone, Data: []byte("new")})
	}
	if err == nil {
		err = w.Close(dump.Trailer{Missed: 1, Unread: []string{"NoAuth: /a/b"}})
	}
	zktest.Must(t, err)
	for _, line := range []string{"import -R --prune " + file, "import -R --prune -n " + file, "mirror file:" + file + " /a", "mirror -n file:" + file + " /a",
		"diff /a file:" + file} {
		status, answers, remarks := run(t.Context(), s, line)
		if status == 0 || status == 1 && strings.HasPrefix(line, "diff") || !strings.Contains(remarks.String(), "could not be read when it was written") {
			t.Errorf("%s: status %d: %s", line, status, remarks)
		}
		if strings.Contains(answers.String(), "delete") {
			t.Errorf("%s: %s", line, answers)
		}
		s = open(t, addr)
	}
	status, _, remarks := run(t.Context(), s, "import -R --overwrite "+file)
	if status != 0 || !strings.Contains(remarks.String(), "1 changed") || !strings.Contains(remarks.String(), "could not be read when ") {
		t.Errorf("status %d: %s", status, remarks)
	}
	if got := must(t, addr, "get /a/b"); got != "worth much\n" {
		t.Errorf("%q", got)
	}
}

// An ensemble is recognized under another host name.
func TestSameEnsembleByAnotherName(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	_, port, err := net.SplitHostPort(addr)
	zktest.Must(t, err)
	alias := "localhost:" + port
	s := open(t, addr)
	putTree(t, s, publicTree(1, "/a"))
	for line, want := range map[string]string{
		"mv /a ALIAS:/a/b":             "is inside /a",
		"cp -R /a ALIAS:/a":            "are the same znode",
		"cp -R / ALIAS:/copy":          "is inside /",
		"mirror / ALIAS:/copy":         "is inside /",
		"mirror ALIAS:/a /":            "is inside /",
		"mv ALIAS:/a /a/b/c":           "is inside",
		"cp -R --overwrite / ALIAS:/a": "is inside /",
	} {
		line = strings.ReplaceAll(line, "ALIAS", alias)
		status, _, remarks := run(t.Context(), open(t, addr), line)
		if status != 1 || !strings.Contains(remarks.String(), want) {
			t.Errorf("%s: status %d: %s", line, status, remarks)
		}
	}
	must(t, addr, fmt.Sprintf("mv /a %s:/b\nmv %s:/b /a", alias, alias))
	if d := firstDifference(t, publicTree(1, "/a"), s, "/a"); d != "" {
		t.Error(d)
	}
}

// New files are readable only by the user.
func TestExportedFileIsPrivate(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	dir := t.TempDir()
	must(t, addr, strings.ReplaceAll("create /a x\nexport /a DIR/one\nget -f DIR/two /a\nexport -R /a DIR/three", "DIR", dir))
	for _, name := range []string{"one", "two", "three"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !zktest.Private(info) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// No command writes to /zookeeper.
func TestNothingIntoTheServersOwn(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	must(t, addr, "create /a\nsetquota -n 10 /a")
	before := must(t, addr, "ls -R /zookeeper")
	for _, line := range []string{"cp -R /a /zookeeper/x", "cp -R --overwrite /a /zookeeper/quota", "mirror /a /zookeeper/quota", "mirror -n /a /zookeeper",
		"mv /a /zookeeper/a", "mv /zookeeper/quota/a /b"} {
		if status, _, remarks := run(t.Context(), open(t, addr), line); status != 1 || !strings.Contains(remarks.String(), "is reserved for the server") {
			t.Errorf("%s: status %d: %s", line, status, remarks)
		}
	}
	if got := must(t, addr, "ls -R /zookeeper"); got != before {
		t.Errorf("%s, was %s", got, before)
	}
}

// The writes setting of a cluster also applies when its servers are given by host and port.
func TestWritesOfTheSameServers(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	must(t, addr, "create /a\ncreate /b")
	for writes, want := range map[zkconn.Writes]string{zkconn.WritesNever: "writes are disabled", zkconn.WritesAsk: "require confirmation"} {
		for _, line := range []string{"cp /a ADDR:/c", "mirror /a ADDR:/b", "mv ADDR:/a ADDR:/c"} {
			s := zksession.Open(t, zkconn.Config{Servers: addr, Timeout: 10 * time.Second, Cluster: "@here", Writes: writes,
				Resolve: func(context.Context, string) (zkconn.Config, error) {
					return zkconn.Config{Servers: addr, Timeout: 10 * time.Second}, nil
				}})
			status, _, remarks := run(t.Context(), s, strings.ReplaceAll(line, "ADDR", addr))
			if status != 1 || !strings.Contains(remarks.String(), want) {
				t.Errorf("%s: %s: status %d: %s", writes, line, status, remarks)
			}
		}
	}
}

// If a server hides the password hashes of an ACL, export and import report that the znode cannot
// be restored.
func TestACLWithoutItsHash(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	hidden := append(zk.DigestACL(zk.PermAll, "v", "w"), zk.WorldACL(zk.PermRead|zk.PermCreate)...)
	putTree(t, open(t, addr), []*dump.Znode{{Path: "/a", ACL: anyone}, {Path: "/a/b", ACL: hidden}, {Path: "/a/b/c", ACL: anyone}, {Path: "/a/d", ACL: anyone}})
	file := filepath.Join(t.TempDir(), "dump")
	status, _, remarks := run(t.Context(), open(t, addr), "export -R /a "+file)
	if status != 1 || !strings.Contains(remarks.String(), "in the ACLs of 1 znode") {
		t.Errorf("status %d: %s", status, remarks)
	}
	for line, want := range map[string]string{
		"import -R -n " + file + " /n": "cannot create 2 znodes from the file: /n/b: ",
		"import -R " + file + " /i":    "created 2 znodes at and below /i; zxids",

		"mirror file:" + file + " /m":         " cannot be created in /m: /m/b: the ACL contains no password hash",
		"mirror /a /o":                        "2 znodes of /a cannot be created in /o: /o/b: the ACL contains no password hash",
		"diff file:" + file + " file:" + file: "",
	} {
		status, _, remarks := run(t.Context(), open(t, addr), line)
		if status != 1 && want != "" || !strings.Contains(remarks.String(), want) {
			t.Errorf("%s: status %d: %s", line, status, remarks)
		}
	}
}

// cp and mv print that sequence counters start over, if the source contains sequential znodes.
func TestSequencesBeginAnew(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{}).Addr()
	must(t, addr, "create /q\ncreate -s /q/n- a\ncreate -s /q/n- b\ndelete /q/n-0000000000\ncreate /p\ncreate /p/n12")
	for line, said := range map[string]bool{"mv /q /r": true, "cp -R /p /s": false} {
		status, _, remarks := run(t.Context(), open(t, addr), line)
		if status != 0 || strings.Contains(remarks.String(), "sequence counters start over") != said {
			t.Errorf("%s: status %d: %s", line, status, remarks)
		}
	}
}
