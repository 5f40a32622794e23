package shell

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

func TestBelow(t *testing.T) {
	for _, c := range [][3]string{
		{"/a", "b", "/a/b"}, {"/", "b", "/b"}, {"/a", "b/", "/a/b/"}, {"/a", ".", "/a"}, {"/a", "./b", "/a/b"},
		{"/a/b", "..", "/a"}, {"/a/b", "../c", "/a/c"}, {"/a", "../../..", "/"}, {"/a", "../", "/"}, {"/a", "b/..", "/a"},
		{"/a", "~", "/"}, {"/a", "~/b", "/b"}, {"/a", "~b", "/a/~b"}, {"/a", "./~", "/a/~"},
		{"/a", "", ""}, {"/a", "/b/../c", "/b/../c"}, {"/a", "b//c", "/a/b//c"}, {"/a", "...", "/a/..."}, {"/a", "文 件", "/a/文 件"},
	} {
		if got := below(c[0], c[1]); got != c[2] {
			t.Errorf("below(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestCompletesFromAFolder(t *testing.T) {
	c := newCompletion(t, newNodes(map[string][]string{"/": {"f", "g"}, "/f": {"a", "文 件", "~"}, "/f/a": {"x"}}))
	servers := "one"
	c.folder.servers = func() string { return servers }
	eventually(t, c, "cd /", "cd /f|cd /g")
	eventually(t, c, "cd f", "") // already complete
	eventually(t, c, "ls f", "")
	c.folder.move("/f")
	eventually(t, c, "ls ", `ls a|ls ./~|ls "文 件"`)
	eventually(t, c, "cd a/", "cd a/x")
	eventually(t, c, "get ..", "get ../")
	eventually(t, c, "get ../", "get ../f|get ../g")
	eventually(t, c, "get ~/f/a/", "get ~/f/a/x")
	eventually(t, c, "get /f/a/", "get /f/a/x")
	servers = "another"
	eventually(t, c, "ls ", "ls /f|ls /g")
}

func TestCompletesFilesAndValues(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"data", "date 文", ".hidden", "sub/inner"} {
		zktest.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		zktest.Must(t, os.WriteFile(name, nil, 0o644))
	}
	c := newCompletion(t, newNodes(map[string][]string{"/": {"f"}}))
	for before, want := range map[string]string{
		"get -f ":       `get -f data|get -f "date 文"|get -f sub/`,
		"get -f .":      "get -f .hidden",
		"set -f sub/":   "set -f sub/inner",
		"get -f none/":  "",
		"source da":     `source data|source "date 文"`,
		"ls / > s":      "ls / > sub/",
		"ls / >> sub/i": "ls / >> sub/inner",
		"ls / > data ":  "",
		"ls / | da":     "",
		"addWatch -m ":  "addWatch -m PERSISTENT|addWatch -m PERSISTENT_RECURSIVE",
		"set -v ":       "",
	} {
		eventually(t, c, before, want)
	}
	if begin := c.complete("get -f d").CommonPrefix; begin != "dat" {
		t.Errorf("files begin with %q", begin)
	}
	c.locks = fakeLocks{}
	p := &partial{}
	if held := c.values(commands.Param{Kind: commands.HeldLock}, p); len(held.list) != 2 || held.list[1].word != "/locks/文 b" {
		t.Errorf("held locks: %+v", held)
	}
	zktest.Eventually(t, "another path is completed", func() bool {
		other := c.values(commands.Param{Kind: commands.HeldLock}, &partial{text: "/f"})
		return len(other.list) == 1 && other.list[0].word == "/f"
	})
}
