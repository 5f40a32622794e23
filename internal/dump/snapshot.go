package dump

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// readSnapshot reads a snapshot that a server wrote: sessions, access control lists by
// number, znodes, and up to three seals (FileSnap, SerializeUtils and DataTree of
// ZooKeeper).
func readSnapshot(in *input) (t *Tree, err error) {
	j := newJuteReader(in.Reader)
	if err := j.mark(); err != nil {
		return nil, err
	}
	for n := j.int(); n > 0 && j.err == nil; n-- {
		j.take(8 + 4) // a session and its timeout
	}
	b := newBuilder(Snapshot, in.file)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.t.Close())
		}
	}()
	acls := map[int64][]zk.ACL{}
	for n := j.int(); n > 0 && j.err == nil; n-- {
		number := j.long()
		acl := j.acl()
		if err := b.hold(sizeOf(acl)); err != nil {
			return nil, err
		}
		acls[number] = acl
	}
	acls[openACL] = zk.WorldACL(zk.PermAll)
	for {
		path := j.string()
		if path == "/" || j.err != nil {
			break
		}
		z, err := j.znode(path, acls)
		if err == nil {
			err = b.add(z)
		}
		if err != nil {
			return nil, err
		}
	}
	j.tail(b.t)
	if j.err != nil {
		return nil, j.err
	}
	b.t.Header.Root = "/"
	return b.done(false)
}

// openACL is the number of the access control list that lets everybody do everything.
const openACL = -1

// znode reads what follows the path of a znode. The number of a list that was made while
// the snapshot was written is not in its table.
func (j *juteReader) znode(path string, acls map[int64][]zk.ACL) (*Znode, error) {
	z := &Znode{Path: path, Data: j.buffer(maxData), ACL: acls[j.long()]}
	if path == "" {
		z.Path = "/"
	}
	d := j.fixed(4*8 + 3*4 + 2*8)
	z.Stat = &zk.Stat{
		Czxid: d.Long(), Mzxid: d.Long(), Ctime: d.Long(), Mtime: d.Long(), Version: d.Int(), Cversion: d.Int(), Aversion: d.Int(),
		EphemeralOwner: d.Long(), Pzxid: d.Long(), DataLength: int32(len(z.Data)),
	}
	z.Kind, z.TTL = kindOf(z.Stat.EphemeralOwner)
	if z.Kind == Container || z.Kind == TTL { // as servers tell it
		z.Stat.EphemeralOwner = 0
	}
	return z, j.err
}

// kindOf reads the owner as a server keeps it (EphemeralType of ZooKeeper): containers
// have the sign alone, a TTL stands behind a first byte of ones.
func kindOf(owner int64) (Kind, time.Duration) {
	switch {
	case owner == 0:
		return Persistent, 0
	case owner == -1<<63:
		return Container, 0
	case uint64(owner)>>56 == 0xff:
		return TTL, time.Duration(owner&maxTTL) * time.Millisecond
	}
	return Ephemeral, 0
}

// What may stand at the end of a snapshot, each sealed: a digest of the tree, since 3.6,
// and the last change in it, in 3.9.
const (
	sealSize = 8 + 4 + 1
	lastSize = 8 + sealSize
)

// tail reads what stands behind the znodes.
func (j *juteReader) tail(t *Tree) {
	j.seal()
	if left := j.left(); left > 0 && left != lastSize {
		t.Trailer.Zxid = j.long()
		if version := j.int(); version < 2 {
			j.string()
		} else {
			j.long()
		}
		j.seal()
	}
	if j.left() > 0 {
		t.Trailer.Zxid = j.long()
		j.seal()
	}
	if j.err == nil && j.left() > 0 {
		j.err = errors.New("the file contains data after the end of the snapshot")
	}
}

// zxidOf reads the number in the name of a snapshot or a log; 0 if it has none.
func zxidOf(name, kind string) int64 {
	name, is := strings.CutPrefix(filepath.Base(name), kind+".")
	if !is {
		return 0
	}
	number, _, _ := strings.Cut(name, ".")
	zxid, err := strconv.ParseUint(number, 16, 64)
	if err != nil {
		return 0
	}
	return int64(zxid)
}
