package dump

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/zktest"
)

// For every format that zksh writes, Open returns the znodes that were written.
func TestForms(t *testing.T) {
	for _, name := range Written() {
		form := Form(name)
		file := filepath.Join(t.TempDir(), "dump")
		var want []*Znode
		w, err := Create(file, form, Header{Root: "/app"})
		zktest.Must(t, err)
		for _, z := range sample() {
			zktest.Must(t, w.Write(z))
			want = append(want, withoutLosses(form, z))
		}
		zktest.Must(t, w.Close(Trailer{}))
		tree, err := Open(t.Context(), file)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if diff := differences(want, all(t, tree)); diff != "" || tree.Form != form || tree.Header.Root != "/app" {
			t.Errorf("%s, %q of %q: %s", form, tree.Form, tree.Header.Root, diff)
		}
		zktest.Check(t, tree.Close())
	}
}

// withoutLosses returns a znode without the fields that a format does not store.
func withoutLosses(form Form, z *Znode) *Znode {
	if form == Lines || form == Dir {
		return z
	}
	if z.Kind != Ephemeral {
		z.Kind, z.TTL = Persistent, 0
	}
	return z
}

// Written zoocreeper files have the structure that zoocreeper expects.
func TestOthersRead(t *testing.T) {
	var creeper map[string]struct {
		EphemeralOwner *int64  `json:"ephemeralOwner"`
		Data           *string `json:"data"`
		Mzxid          int64   `json:"mzxid"`
		ACLs           []struct {
			ID, Scheme string
			Perms      int32
		} `json:"acls"`
	}
	zktest.Must(t, json.Unmarshal(written(t, Zoocreep, sample()), &creeper))
	for _, z := range sample() {
		c := creeper[z.Path]
		var acl []zk.ACL
		for _, a := range c.ACLs {
			acl = append(acl, zk.ACL{Perms: a.Perms, Scheme: a.Scheme, ID: a.ID})
		}
		if diff := cmp.Diff(z.ACL, acl); diff != "" {
			t.Errorf("%s: %s", z.Path, diff)
		}
		if c.EphemeralOwner == nil || *c.EphemeralOwner != z.Stat.EphemeralOwner || c.Mzxid != z.Stat.Mzxid {
			t.Errorf("%s: %+v", z.Path, c)
		}
		if (c.Data == nil) != (z.Data == nil) {
			t.Fatalf("%s: %v", z.Path, c.Data)
		}
		if c.Data == nil {
			continue
		}
		if data, err := base64.StdEncoding.DecodeString(*c.Data); err != nil || !bytes.Equal(data, z.Data) {
			t.Errorf("%s: %q, %v", z.Path, data, err)
		}
	}
}

// ParseForm distinguishes formats that can only be read from unknown ones.
func TestParseForm(t *testing.T) {
	for name, want := range map[string]string{
		"zoonavigator": "zksh can read the format zoonavigator but cannot write it; the formats are zksh, zoocreeper, dir",
		"zkshell":      "zksh can read the format zkshell but cannot write it; the formats are zksh, zoocreeper, dir",
		"zip":          `unknown format "zip"; the formats are zksh, zoocreeper, dir`,
	} {
		if _, err := ParseForm(name); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Read accepts files of other programs, in their own orders and layouts.
func TestOthersWrote(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"zk_shell": {`{
    "/a/b/c": {"content": "eA==", "acls": [{"perms": 31, "id": {"scheme": "world", "id": "anyone"}}]},
    "/a/b": {"acls": [], "content": null}, "/a/d": {"acls": [], "content": ""}
}`, "/a= /a/b= /a/b/c=x /a/d= 1"},
		"zoocreeper": {`{"/":{"aversion":0,"ephemeralOwner":0,"data":null,"acls":[]},"/z!":{"ephemeralOwner":0,"data":"eA==","acls":[]},"/z":{"ephemeralOwner":72057594037927936,"data":"eQ==","acls":[{"id":"anyone","scheme":"world","perms":31}]}}`, "/= /z=y /z!=x 0"},
		"ZooNavigator": {`[{"h":{"acl":[{"id":"anyone","scheme":"world","permissions":["read","admin"]}],"path":"/a/x","data":"eA=="},"t":[{"t":[],"h":{"acl":[],"path":"/a/x/y","data":""}}]},
{"h":{"acl":[],"path":"/a/w","data":"dw=="},"t":[]}]`, "/a= /a/w=w /a/x=x /a/x/y= 1"},
	} {
		tree := read(t, []byte(c.text))
		var got []string
		for _, z := range all(t, tree) {
			got = append(got, z.Path+"="+string(z.Data))
		}
		if text := strings.Join(got, " ") + " " + string(rune('0'+countMadeUp(tree))); text != c.want {
			t.Errorf("%s: %s; want %s", name, text, c.want)
		}
	}
}

// One tree as zk_shell and ZooNavigator write it.
const (
	zkShellText = `{
"/a":{"content":"eA==","acls":[{"perms":31,"id":{"scheme":"world","id":"anyone"}}]},
"/a/b":{"content":null,"acls":[{"perms":31,"id":{"scheme":"world","id":"anyone"}}]},
"/a/b/c":{"content":null,"acls":[]}
}`
	navigatorText = `[{"h":{"acl":[{"id":"anyone","scheme":"world","permissions":["create","read","write","delete","admin"]}],"path":"/a","data":"eA=="},` +
		`"t":[{"h":{"acl":[],"path":"/a/b","data":""},"t":[{"h":{"acl":[],"path":"/a/b/c","data":""},"t":[]}]}]}]`
)

// Read rejects truncated files, and files that are not dumps, with a reason.
func TestRefused(t *testing.T) {
	small := []*Znode{{Path: "/a", Data: []byte("x"), ACL: zk.WorldACL(31)}, {Path: "/a/b", ACL: zk.WorldACL(31)}, {Path: "/a/b/c"}}
	for form, whole := range map[Form][]byte{
		Zoocreep: bytes.TrimSpace(written(t, Zoocreep, small)), ZkShell: []byte(zkShellText), Navigator: []byte(navigatorText),
	} {
		for i := range whole {
			if tree, err := Read(t.Context(), bytes.NewReader(whole[:i])); err == nil {
				t.Errorf("%s cut at %d: %d znodes", form, i, tree.Len())
			}
		}
		if _, err := Read(t.Context(), bytes.NewReader(append(whole, whole...))); err == nil {
			t.Errorf("%s twice", form)
		}
	}
	for text, want := range map[string]string{
		"":                                     "the file is empty",
		"hello":                                "the file is neither an export",
		"{}":                                   "the file does not contain any znodes",
		"[]":                                   "the file does not contain any znodes",
		"[[]]":                                 "it does not contain trees",
		`["h"]`:                                "it does not contain trees",
		`[{"h":1}]`:                            "cannot unmarshal",
		`{"/a":{}}`:                            "the znode's entry is in neither the zoocreeper nor",
		`{"a":{"content":"","acls":[]}}`:       "invalid znode path",
		`{"/a/../b":{"content":"","acls":[]}}`: "relative paths",
		`{"/a":{"content":"","acls":[]},"/a":{"content":"","acls":[]}}`:                 "the file contains /a twice",
		`{"/a":{"content":"","acls":[]},"/b":{"data":"","ephemeralOwner":0,"acls":[]}}`: "the znode's entry has a different format from the entries before",
		"ZKLG\x00\x00\x00\x02":                                 "the file is a transaction log",
		"ZKSN\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00": "version 3",
	} {
		_, err := Read(t.Context(), strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
}

// Open rejects an exported directory in which a file was changed.
func TestChangedDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	w, err := Create(dir, Dir, Header{Root: "/a"})
	zktest.Must(t, err)
	zktest.Must(t, w.Write(&Znode{Path: "/a", Data: []byte("x")}))
	zktest.Must(t, w.Close(Trailer{}))
	content := filepath.Join(dir, "data", "a", "content")
	for _, change := range []func() error{
		func() error { return os.WriteFile(content, []byte("y"), 0o600) },
		func() error { return os.Remove(content) },
		func() error { return os.Symlink("/etc/passwd", content) },
	} {
		zktest.Must(t, change())
		if _, err := Open(t.Context(), dir); err == nil {
			t.Error("a changed folder was read")
		}
	}
	if _, err := Create(dir, Dir, Header{}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Error(err)
	}
	if _, err := Open(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "does not contain the file tree.json") {
		t.Error(err)
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
