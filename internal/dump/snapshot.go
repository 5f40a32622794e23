package dump

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// readSnapshot reads a server's snapshot, and calls add for each znode. A snapshot contains sessions,
// numbered ACLs, znodes, and up to three checksums. The format is defined by FileSnap, SerializeUtils
// and DataTree of ZooKeeper.
func (f *File) readSnapshot(add func(*Znode) error) error {
	f.Header.Root, f.Part = "/", 1
	j := newJuteReader(f.r)
	if err := j.fileHeader(); err != nil {
		return err
	}
	for n := j.int(); n > 0 && j.err == nil; n-- {
		j.bytes(8 + 4) // skip a session ID and the timeout of the session
	}
	acls := map[int64][]zk.ACL{}
	for n := j.int(); n > 0 && j.err == nil; n-- {
		number := j.long()
		acl := j.acl()
		if err := f.file.reserve(sizeOf(acl)); err != nil {
			return err
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
			err = checkZnode(z)
		}
		if err == nil {
			err = add(z)
		}
		if err != nil {
			return err
		}
	}
	j.trailer(&f.Trailer)
	return j.err
}

// openACL is the number of the ACL that grants all permissions to everybody.
const openACL = -1

// znode reads the fields of a znode that follow its path. acls maps numbers to ACLs. If the znode
// was created while the server was writing the snapshot, acls may lack its number, and the ACL is
// unknown.
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
	if z.Kind == Container || z.Kind == TTL { // do not return the ephemeral owner, because servers do not show it to clients
		z.Stat.EphemeralOwner = 0
	}
	return z, j.err
}

// kindOf decodes an ephemeral owner as servers store it (class EphemeralType of ZooKeeper). For a
// container, only the sign bit is set. For a znode with a TTL, the first byte is 0xff, and the TTL
// follows.
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

// Sizes of the optional parts at the end of a snapshot, in bytes. A snapshot may end with a digest
// of the tree (since 3.6) and the last zxid of the tree (in 3.9), each followed by a checksum.
const (
	checksumSize = 8 + 4 + 1
	lastZxidSize = 8 + checksumSize
)

// trailer reads the part of a snapshot after the znodes.
func (j *juteReader) trailer(t *Trailer) {
	j.checksum()
	if left := j.remaining(); left > 0 && left != lastZxidSize {
		t.Zxid = j.long()
		if version := j.int(); version < 2 {
			j.string()
		} else {
			j.long()
		}
		j.checksum()
	}
	if j.remaining() > 0 {
		t.Zxid = j.long()
		j.checksum()
	}
	if j.err == nil && j.remaining() > 0 {
		j.err = errors.New("the file contains data after the end of the snapshot")
	}
}

// zxidOf returns the zxid in the name of a snapshot, or 0 if the name contains no zxid.
func zxidOf(name string) int64 {
	name, is := strings.CutPrefix(filepath.Base(name), "snapshot.")
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
