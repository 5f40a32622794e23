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

// A juteReader reads ZooKeeper's binary records from a file and computes the checksum of what it
// has read. After the first error, its methods return zero values.
type juteReader struct {
	r   *bufio.Reader
	sum hash.Hash32
	err error
}

func newJuteReader(r *bufio.Reader) *juteReader { return &juteReader{r: r, sum: adler32.New()} }

// bytes reads n bytes. It allocates memory only as the data arrives, so that a damaged value of n
// cannot make it allocate too much.
func (j *juteReader) bytes(n int) []byte {
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

func (j *juteReader) fixed(n int) *jute.Decoder { return jute.NewDecoder(j.bytes(n)) }

func (j *juteReader) int() int32  { return j.fixed(4).Int() }
func (j *juteReader) long() int64 { return j.fixed(8).Long() }

// buffer reads a byte buffer of at most limit bytes. It returns nil for a null buffer.
func (j *juteReader) buffer(limit int) []byte {
	n := int(j.int())
	switch {
	case j.err != nil || n == -1:
		return nil
	case n < 0 || n > limit:
		j.err = fmt.Errorf("the file is damaged: it contains a record with a length of %d bytes", n)
		return nil
	case n == 0:
		return []byte{}
	}
	return j.bytes(n)
}

func (j *juteReader) string() string { return string(j.buffer(maxString)) }

// maxString is the maximum length of paths and other strings, in bytes.
const maxString = 4 << 20

// acl reads an ACL.
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

// errSum means that a checksum does not match: the file was changed after it was written.
var errSum = errors.New("the file is damaged: its checksum does not match")

// checksum verifies the checksum of all preceding bytes. In the file, the checksum is followed by
// the string "/".
func (j *juteReader) checksum() {
	want := int64(j.sum.Sum32())
	got, end := j.long(), j.string()
	if j.err == nil && (got != want || end != "/") {
		j.err = errSum
	}
}

// remaining returns the number of bytes until the end of the file, but at most the size of the
// reader's buffer.
func (j *juteReader) remaining() int {
	b, err := j.r.Peek(j.r.Size())
	if err != nil && !errors.Is(err, io.EOF) && j.err == nil {
		j.err = err
	}
	return len(b)
}

// fileHeader reads the header of a ZooKeeper file: the magic number, a version and a database ID.
func (j *juteReader) fileHeader() error {
	j.int()
	version := j.int()
	j.long()
	if j.err == nil && version != 2 {
		return fmt.Errorf("the file is in format version %d, but zksh can read only version 2", version)
	}
	return j.err
}

// hasMagic reports whether b begins with the given magic number of a ZooKeeper file.
func hasMagic(b []byte, magic string) bool {
	return len(b) >= 4 && binary.BigEndian.Uint32(b) == binary.BigEndian.Uint32([]byte(magic))
}
