package dump

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A recordReader returns the same znode as the JSON package, or leaves the line to it.
func TestRecordReader(t *testing.T) {
	var r recordReader
	same := func(line string) (read bool) {
		t.Helper()
		z, ok := r.znode([]byte(line))
		if !ok {
			return false
		}
		rec, err := readRecord([]byte(line))
		if err != nil {
			t.Fatalf("%s: read as %+v, but it is wrong: %v", line, z, err)
		}
		if want := rec.znode(); !reflect.DeepEqual(z, want) {
			t.Fatalf("%s: got %+v, not %+v", line, z, want)
		}
		return true
	}
	for _, z := range []*Znode{
		{Path: "/"},
		{Path: "/a b", Data: []byte{}, ACL: []zk.ACL{}},
		{Path: "/字", Kind: TTL, TTL: time.Hour, Data: []byte("\x00\xff"), ACL: []zk.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}},
		{Path: "/c", Kind: Ephemeral, Data: []byte("x"), ACL: []zk.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: -1, Scheme: "digest", ID: "a:b="}},
			Stat: &zk.Stat{Czxid: 1 << 62, Mzxid: -1 << 63, Version: 1<<31 - 1, Cversion: -1 << 31, Pzxid: 7, NumChildren: 3}},
		{Path: "/d", Data: []byte("x"), Stat: &zk.Stat{Czxid: 5, Mzxid: 5, Ctime: 6, Mtime: 6, DataLength: 1, Pzxid: 5}},
		{Path: "/e", Stat: &zk.Stat{}},
	} {
		line := string(newLineWriter(nil).append(nil, z))
		if !same(line) {
			t.Errorf("not read: %s", line)
		}
		// The same holds for every changed line.
		for i := range len(line) {
			for _, with := range []string{"", "0", "-", `"`, `\`, "{", "null", " ", "\xff", "9999999999999999999"} {
				same(line[:i] + with + line[i:])
				same(line[:i] + with + line[i+1:])
			}
		}
	}
	if same(string(newLineWriter(nil).append(nil, &Znode{Path: `/"`}))) {
		t.Error("a path with an escape was not left to the JSON package")
	}
}
