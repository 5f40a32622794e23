package dump

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// juteReader reads ZooKeeper's records from a file, and keeps its checksum. After the
// first failure all it gives are zeros.
type juteReader struct {
	r   *bufio.Reader
	sum hash.Hash32
	err error
}

func newJuteReader(r *bufio.Reader) *juteReader { return &juteReader{r: r, sum: adler32.New()} }

// take reads so many bytes. Memory grows with what there is, not with what is claimed.
func (j *juteReader) take(n int) []byte {
	if j.err != nil {
		return nil
	}
	b, err := jute.ReadBehind(j.r, nil, n, 64<<10)
	if err != nil {
		if j.err = err; errors.Is(err, io.EOF) {
			j.err = io.ErrUnexpectedEOF
		}
		return nil
	}
	j.sum.Write(b)
	return b
}

func (j *juteReader) fixed(n int) *jute.Decoder { return jute.NewDecoder(j.take(n)) }

func (j *juteReader) int() int32  { return j.fixed(4).Int() }
func (j *juteReader) long() int64 { return j.fixed(8).Long() }

// buffer reads a buffer; null is nil.
func (j *juteReader) buffer(most int) []byte {
	n := int(j.int())
	switch {
	case j.err != nil || n == -1:
		return nil
	case n < 0 || n > most:
		j.err = fmt.Errorf("the file is damaged: it contains a record with a length of %d bytes", n)
		return nil
	case n == 0:
		return []byte{}
	}
	return j.take(n)
}

func (j *juteReader) string() string { return string(j.buffer(maxString)) }

// maxString bounds paths and the like.
const maxString = 4 << 20

// acl reads an access control list.
func (j *juteReader) acl() []zk.ACL {
	acl := []zk.ACL{}
	size := 0
	for n := j.int(); n > 0 && j.err == nil; n-- {
		a := zk.ACL{Perms: j.int(), Scheme: j.string(), ID: j.string()}
		acl = append(acl, a)
		if size += 4 + 4 + len(a.Scheme) + 4 + len(a.ID); size > maxList && j.err == nil {
			j.err = fmt.Errorf("the file is damaged, or an ACL in it is larger than %d bytes", maxList)
		}
	}
	return acl
}

// errSum says that a file is not what was written.
var errSum = errors.New("the file is damaged: its checksum does not match")

// seal reads a checksum of all before it, and what stands behind one.
func (j *juteReader) seal() {
	want := int64(j.sum.Sum32())
	got, end := j.long(), j.string()
	if j.err == nil && (got != want || end != "/") {
		j.err = errSum
	}
}

// left is how many bytes follow, up to a bound.
func (j *juteReader) left() int {
	b, err := j.r.Peek(j.r.Size())
	if err != nil && !errors.Is(err, io.EOF) && j.err == nil {
		j.err = err
	}
	return len(b)
}

// mark reads what ZooKeeper's files begin with: the magic, a version and the number of
// a database.
func (j *juteReader) mark() error {
	j.int()
	version := j.int()
	j.long()
	if j.err == nil && version != 2 {
		return fmt.Errorf("the file is in format version %d, but zksh can read only version 2", version)
	}
	return j.err
}

// isMark tells ZooKeeper's files by their beginning.
func isMark(b []byte, magic string) bool {
	return len(b) >= 4 && binary.BigEndian.Uint32(b) == binary.BigEndian.Uint32([]byte(magic))
}
