package dump

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

// sample returns a tree with difficult names, data, kinds and ACLs, in the order of a walk.
func sample() []*Znode {
	open := zk.WorldACL(zk.PermAll)
	at := func(z Znode, children int32) *Znode {
		z.Stat = &zk.Stat{
			Czxid: 0x100000001, Mzxid: 0x100000002, Ctime: 1700000000001, Mtime: 1700000000002, Version: 3, Cversion: 4, Aversion: 5,
			DataLength: int32(len(z.Data)), NumChildren: children, Pzxid: 0x100000003,
		}
		if z.ACL == nil {
			z.ACL = open
		}
		return &z
	}
	eph := at(Znode{Path: "/app/eph", Kind: Ephemeral, Data: []byte("mine")}, 0)
	eph.Stat.EphemeralOwner = 0x100200300400500
	return []*Znode{
		at(Znode{Path: "/app"}, 9),
		at(Znode{Path: "/app/%2F %", Data: []byte{}}, 0),
		at(Znode{Path: "/app/.hidden", Data: []byte("x")}, 0),
		at(Znode{Path: "/app/a b", Data: []byte("line\nline\ttab\x00\xff\xfe")}, 1),
		at(Znode{Path: "/app/a b/content", Data: []byte("\"quoted\"")}, 0),
		at(Znode{Path: "/app/a\"b'c\\d", Data: bytes.Repeat([]byte{0, 1, 254, 255}, 1<<18)}, 0),
		at(Znode{Path: "/app/big", Data: []byte("null")}, 0),
		at(Znode{Path: "/app/container", Kind: Container}, 0),
		eph,
		at(Znode{Path: "/app/ttl", Kind: TTL, TTL: 90 * time.Second, ACL: []zk.ACL{
			{Perms: zk.PermRead, Scheme: "ip", ID: "10.0.0.0/8"},
			{Perms: zk.PermAll, Scheme: "digest", ID: "user:b64+/=="},
			{Perms: 31, Scheme: "sasl", ID: "kafka/host@REALM"},
			{Perms: 31, Scheme: "x509", ID: `CN="a,b",O=ü`},
		}}, 0),
		at(Znode{Path: "/app/配置", Data: []byte("值")}, 0),
	}
}

// written returns a dump of the given znodes.
func written(t testing.TB, znodes []*Znode) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{Root: znodes[0].Path, Server: "zk1:2181", Zxid: 0x100000002, Time: time.UnixMilli(1700000001000)})
	zktest.Must(t, err)
	for _, z := range znodes {
		zktest.Must(t, w.Write(z))
	}
	zktest.Must(t, w.Close(Trailer{Zxid: 0x100000009}))
	return b.Bytes()
}

// all returns the znodes of a tree.
func all(t testing.TB, tree *Tree) []*Znode {
	t.Helper()
	var znodes []*Znode
	for z, err := range tree.Znodes(tree.Root()) {
		zktest.Must(t, err)
		znodes = append(znodes, z)
	}
	return znodes
}

// differences returns a diff of two lists of znodes, in which null and empty data differ.
func differences(want, got []*Znode) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }))
}

func read(t testing.TB, b []byte) *Tree {
	t.Helper()
	tree, err := Read(t.Context(), bytes.NewReader(b))
	zktest.Must(t, err)
	t.Cleanup(func() {
		zktest.Check(t, tree.Close())
	})
	return tree
}

func TestLines(t *testing.T) {
	tree := read(t, written(t, sample()))
	if diff := differences(sample(), all(t, tree)); diff != "" {
		t.Error(diff)
	}
	want := Header{Root: "/app", Server: "zk1:2181", Zxid: 0x100000002, Time: time.UnixMilli(1700000001000).UTC()}
	if diff := cmp.Diff(want, tree.Header); diff != "" {
		t.Error(diff)
	}
	if tree.Trailer.Zxid != 0x100000009 || len(tree.nodes) != len(sample()) {
		t.Errorf("%+v, %d znodes", tree.Trailer, len(tree.nodes))
	}
	if !tree.Has("/app/a b/content") || tree.Has("/app/none") {
		t.Error("the tree does not have the znodes of the file")
	}
	if z, err := tree.Znode("/app/none"); err != errNone {
		t.Errorf("%v, %v", z, err)
	}
}

// Read rejects a dump in which a bit was changed, or from which a part is missing.
func TestDamagedLines(t *testing.T) {
	small := sample()[6:9]
	small = append([]*Znode{sample()[0]}, small...)
	whole := written(t, small)
	refused := func(what string, b []byte) {
		t.Helper()
		tree, err := Read(t.Context(), bytes.NewReader(b))
		if err == nil {
			t.Errorf("%s: %d znodes", what, len(tree.nodes))
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		refused("a changed bit", b)
		refused("cut", whole[:i])
	}
	refused("one byte more", append(bytes.Clone(whole), '\n'))
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for i := range lines[:len(lines)-1] {
		refused("a line less", bytes.Join(slices.Delete(slices.Clone(lines), i, i+1), nil))
	}
}

// Read merges concatenated dumps into one tree; a znode in several of them is taken from the first
// one. If the last dump is truncated, the error says how to extract the intact ones before it.
func TestLinesBehindEachOther(t *testing.T) {
	one := written(t, []*Znode{{Path: "/a/x", Data: []byte("old")}})
	two := written(t, []*Znode{{Path: "/a", Data: []byte("a")}, {Path: "/a/x", Data: []byte("new")}, {Path: "/a/x/y"}})
	other := written(t, []*Znode{{Path: "/b/c"}})
	all := slices.Concat(one, two, other)
	tree, err := Read(t.Context(), bytes.NewReader(all))
	zktest.Must(t, err)
	defer tree.Close()
	var got []string
	for z, err := range tree.Znodes("/") {
		zktest.Must(t, err)
		got = append(got, z.Path+"="+string(z.Data))
	}
	if want := []string{"/=", "/a=a", "/a/x=old", "/a/x/y=", "/b=", "/b/c="}; !slices.Equal(got, want) || countMadeUp(tree) != 2 {
		t.Errorf("%q, %d made up; want %q", got, countMadeUp(tree), want)
	}
	for i := len(one) + len(two) + 1; i < len(all); i++ {
		_, err := Read(t.Context(), bytes.NewReader(all[:i]))
		if err == nil || !strings.Contains(err.Error(), "head -n 10") {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain.json", "packed.json.gz"} {
		name = filepath.Join(dir, name)
		w, err := Create(name, Header{Root: "/app"})
		zktest.Must(t, err)
		for _, z := range sample() {
			zktest.Must(t, w.Write(z))
		}
		if _, err := os.Stat(name); !os.IsNotExist(err) {
			t.Errorf("half of a dump has its name: %v", err)
		}
		zktest.Must(t, w.Close(Trailer{}))
		info, err := os.Stat(name)
		if err != nil || !zktest.Private(info) {
			t.Errorf("%v, %v", info, err)
		}
		tree, err := Open(t.Context(), name)
		zktest.Must(t, err)
		if diff := differences(sample(), all(t, tree)); diff != "" {
			t.Error(diff)
		}
		zktest.Check(t, tree.Close())
	}
	w, err := Create(filepath.Join(dir, "never"), Header{Root: "/app"})
	zktest.Must(t, err)
	zktest.Check(t, w.Abort())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestOrder(t *testing.T) {
	want := strings.Fields("/ /a /a/b /a/b/c /a/c /a! /a-b /a-b/x /aa")
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, InOrder)
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}

// countMadeUp returns the number of znodes of a tree that are not in its file.
func countMadeUp(t *Tree) (n int) {
	for _, z := range t.nodes {
		if z.offset < 0 {
			n++
		}
	}
	return n
}

// Read rejects files that are neither dumps nor snapshots, with a reason.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":      "the file is empty",
		"hello": foreign,
		"{}":    foreign,
		"[]":    foreign,
		// The formats of zoocreeper, zk_shell and ZooNavigator.
		`{"/a":{"ephemeralOwner":0,"data":"eA==","acls":[]}}`:                       foreign,
		`{"/a":{"content":"eA==","acls":[]}}`:                                       foreign,
		`[{"h":{"acl":[],"path":"/a","data":"eA=="},"t":[]}]`:                       foreign,
		headLine + znodeLine("a"):                                                   "invalid znode path",
		headLine + znodeLine("/a/../b"):                                             "relative paths",
		withChecksum(headLine + trailerLine(0)):                                     "the file does not contain any znodes",
		withChecksum(headLine + znodeLine("/a") + znodeLine("/a") + trailerLine(2)): "the file contains /a twice",
		"ZKLG\x00\x00\x00\x02":                                                      "the file is a transaction log",
		"ZKSN\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00":                      "version 3",
	} {
		_, err := Read(t.Context(), strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
	const isDir = " is a directory, but zksh reads only a single file: "
	if _, err := Open(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), isDir+"an export") {
		t.Error(err)
	}
	if _, err := OpenLog(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), isDir+"a transaction log") {
		t.Error(err)
	}
}

// foreign is the error about a file that zksh cannot read.
const foreign = "the file is neither an export of zksh (export -R) nor a ZooKeeper snapshot, and zksh reads no other formats"

// znodeLine returns the line of a znode without data, ACL and stat.
func znodeLine(path string) string {
	return fmt.Sprintf(`{"path":%q,"kind":"persistent","data":null,"acl":null,"stat":null}`+"\n", path)
}

// trailerLine returns the trailer of a dump with n znodes.
func trailerLine(n int) string { return fmt.Sprintf(`{"end":{"znodes":%d}}`+"\n", n) }
