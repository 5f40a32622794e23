package dump

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// small returns a few znodes of sample.
func small() []*Znode {
	all := sample()
	return []*Znode{all[0], all[1], all[7], all[8], all[10]}
}

// snapshotOf encodes a snapshot as a server of the given version does (39 is 3.9).
func snapshotOf(znodes []*Znode, version int32) []byte {
	var e jute.Encoder
	e.B = append(e.B, "ZKSN"...)
	e.Int(2)
	e.Long(-1)
	e.Int(1)
	e.Long(0x1234)
	e.Int(30000)
	e.Int(1)
	e.Long(7)
	e.Int(2, zk.PermRead)
	e.String("ip")
	e.String("10.0.0.0/8")
	e.Int(zk.PermAll)
	e.String("digest")
	e.String("u:p")
	for i, z := range append([]*Znode{{}}, znodes...) {
		e.String(z.Path)
		e.Buffer(z.Data)
		e.Long(-1 + int64(i%2)*8)
		e.Long(1, 2, 3, 4)
		e.Int(5, 6, 7)
		owner := int64(0)
		switch z.Kind {
		case Container:
			owner = -1 << 63
		case TTL:
			owner = -1<<56 | z.TTL.Milliseconds()
		case Ephemeral:
			owner = 0x100000000000001
		}
		e.Long(owner, 8)
	}
	e.String("/")
	seal := func() {
		r := newJuteReader(nil)
		r.sum.Write(e.B)
		e.Long(int64(r.sum.Sum32()))
		e.String("/")
	}
	seal()
	switch version {
	case 36: // the digest is a string
		e.Long(0x99)
		e.Int(1)
		e.String("abc")
		seal()
	case 38, 39:
		e.Long(0x99)
		e.Int(2)
		e.Long(42)
		seal()
	}
	if version >= 39 {
		e.Long(0x99)
		seal()
	}
	return e.B
}

// Read accepts snapshots of all versions, and rejects them when any bit was changed.
func TestSnapshotVersions(t *testing.T) {
	for _, version := range []int32{34, 36, 38, 39, 40} {
		whole := snapshotOf(small(), version)
		tree := read(t, whole)
		znodes := all(t, tree)
		if len(znodes) != 1+len(small()) || version > 35 && tree.Trailer.Zxid != 0x99 {
			t.Errorf("3.%d: %d znodes, %+v", version-30, len(znodes), tree.Trailer)
		}
		if z := znodes[4]; z.Kind != Ephemeral || z.Stat.EphemeralOwner != 0x100000000000001 || z.Stat.Pzxid != 8 {
			t.Errorf("%+v, %+v", z, z.Stat)
		}
		if z := znodes[1]; z.Stat.NumChildren != 4 || z.Stat.Cversion != 2*6-4 || len(z.ACL) != 2 {
			t.Errorf("%+v, %+v", z, z.Stat)
		}
		for i := range whole {
			if tree, err := Read(t.Context(), bytes.NewReader(whole[:i])); err == nil && !(version >= 38 && i == len(snapshotOf(small(), 34))) &&
				!(version == 36 && i == len(snapshotOf(small(), 34))) && !(version >= 39 && i == len(snapshotOf(small(), 38))) {
				t.Fatalf("3.%d cut at %d: %d znodes", version-30, i, len(tree.nodes))
			}
			bad := bytes.Clone(whole)
			bad[i] ^= 1 << (i % 8)
			if tree, err := Read(t.Context(), bytes.NewReader(bad)); err == nil {
				t.Fatalf("3.%d, byte %d changed: %d znodes", version-30, i, len(tree.nodes))
			}
		}
	}
}

// FuzzRead checks that no file makes Read panic, or use memory for a length that is only claimed.
func FuzzRead(f *testing.F) {
	f.Add(written(f, small()))
	f.Add(snapshotOf(small(), 39))
	huge := snapshotOf(nil, 34)
	f.Add(append(huge[:4+4+8+4+12+4:4+4+8+4+12+4], 0, 0, 0, 0, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, func() {
			tree, err := Read(t.Context(), bytes.NewReader(b))
			if err != nil {
				return
			}
			n := 0
			for z, err := range tree.Znodes(tree.Root()) {
				if n++; err != nil || checkPath(z.Path) != nil {
					t.Errorf("%+v, %v", z, err)
				}
			}
			if n != len(tree.nodes) {
				t.Errorf("%d of %d znodes", n, len(tree.nodes))
			}
			zktest.Check(t, tree.Close())
		})
	})
}

// FuzzLog does the same as FuzzRead for transaction logs.
func FuzzLog(f *testing.F) {
	f.Add(logOf())
	f.Add(append([]byte("ZKLG\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00"), 0, 0, 0, 0, 0, 0, 0, 1, 0x03, 0xff, 0xff, 0xff, 'x'))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "log.1")
		zktest.Must(t, os.WriteFile(file, b, 0o600))
		bounded(t, func() {
			l, err := OpenLog(t.Context(), file)
			if err != nil {
				return
			}
			for txn, err := range l.Txns() {
				if (txn == nil) == (err == nil) {
					t.Errorf("%v, %v", txn, err)
				}
			}
			zktest.Check(t, l.Close())
		})
	})
}

// logOf returns a transaction log as a server writes it.
func logOf() []byte {
	out := jute.Encoder{B: []byte("ZKLG")}
	out.Int(2)
	out.Long(0)
	for _, body := range []func(e *jute.Encoder){
		func(e *jute.Encoder) { e.Int(TxnCreateSession, 30000) },
		func(e *jute.Encoder) { e.Int(jute.OpDelete); e.String("/a") },
		func(e *jute.Encoder) { e.Int(jute.OpMulti, 1, jute.OpDelete); e.Buffer([]byte{0, 0, 0, 2, '/', 'a'}) },
	} {
		var e jute.Encoder
		e.Long(1)
		e.Int(2)
		e.Long(3, time.Now().UnixMilli())
		body(&e)
		r := newJuteReader(nil)
		r.sum.Write(e.B)
		out.Long(int64(r.sum.Sum32()))
		out.Buffer(e.B)
		out.Byte('B')
	}
	return append(out.B, make([]byte, 100)...)
}

// bounded calls do, and fails the test if do allocates more than 64 MiB.
func bounded(t *testing.T, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that everything is counted
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("it took %d MiB", used>>20)
	}
}
