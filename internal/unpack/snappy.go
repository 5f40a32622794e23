package unpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
)

// errSnappy reports that snappy data is invalid.
var errSnappy = errors.New("the compressed data is damaged")

// decodeFramed decodes data in snappy's framing format, which consists of chunks with a type, a
// length and a checksum.
func decodeFramed(in []byte) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(snappy.NewReader(bytes.NewReader(in)), limit+1))
	switch {
	case len(out) > limit:
		return nil, errTooMuch
	case errors.Is(err, snappy.ErrUnsupported):
		return nil, errors.New("the compressed data contains chunks of an unknown type")
	case errors.Is(err, s2.ErrCRC):
		return nil, errors.New("the checksum of the decompressed data does not match")
	case err != nil:
		return nil, errSnappy
	}
	return out, nil
}

// javaHeader is the length of the header of snappy-java's format, in bytes: the magic number and
// two versions.
const javaHeader = len(javaSnappy) + 8

// decodeJava decodes data in snappy-java's format.
func decodeJava(in []byte) ([]byte, error) {
	r, err := JavaSnappy(bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if len(out) > limit {
		return nil, errTooMuch
	}
	return out, err
}

// JavaSnappy returns a reader that decompresses snappy-java's format, which consists of blocks
// that are preceded by their lengths.
func JavaSnappy(in io.Reader) (io.Reader, error) {
	head := make([]byte, javaHeader)
	if _, err := io.ReadFull(in, head); err != nil || !IsJavaSnappy(head) {
		return nil, errSnappy
	}
	return &blocks{r: in}, nil
}

// IsJavaSnappy reports whether b begins with the magic number of snappy-java's format.
func IsJavaSnappy(b []byte) bool { return bytes.HasPrefix(b, []byte(javaSnappy)) }

// blocks is a reader that decompresses one snappy block after another.
type blocks struct {
	r      io.Reader
	in     bytes.Buffer
	out    []byte
	unread []byte // the part of out that Read has not returned yet
}

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for len(b.unread) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(b.r, size[:]); err != nil { // io.EOF between two blocks means that the data is complete
			return 0, truncatedError(err)
		}
		n := int64(binary.BigEndian.Uint32(size[:]))
		if n > limit {
			return 0, errTooMuch
		}
		b.in.Reset()
		if _, err := io.CopyN(&b.in, b.r, n); err != nil {
			return 0, errSnappy
		}
		var err error
		if b.out, err = decodeBlock(b.out, b.in.Bytes()); err != nil {
			return 0, err
		}
		b.unread = b.out
	}
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	return n, nil
}

// truncatedError returns errSnappy if err means that the data ended in the middle of the length of
// a block. Otherwise, it returns err unchanged.
func truncatedError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errSnappy
	}
	return err
}

// maxRatio is an upper limit on the compression ratio of a block. At best, snappy encodes 64 bytes
// in 3 bytes.
const maxRatio = 22

// decodeBlock decompresses one snappy block. It uses the memory of dst if that is large enough.
func decodeBlock(dst, in []byte) ([]byte, error) {
	size, n := binary.Uvarint(in)
	switch {
	case n <= 0:
		return nil, errSnappy
	case size > limit:
		return nil, errTooMuch
	case size > maxRatio*uint64(len(in)): // a wrong length must not make zksh allocate too much memory
		return nil, errSnappy
	}
	out, err := snappy.DecodeStrict(dst, in)
	if err != nil {
		return nil, errSnappy
	}
	return out, nil
}
