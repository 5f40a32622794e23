package unpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
)

// errSnappy is the error of snappy data that is none.
var errSnappy = errors.New("the compressed data is damaged")

// unframe reads snappy's framing format: chunks of a type, a length and a checksum.
func unframe(in []byte) ([]byte, error) {
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

// javaHeader is the length of the header of snappy-java's format: the mark, and two
// versions.
const javaHeader = len(javaSnappy) + 8

// unblock reads snappy-java's format.
func unblock(in []byte) ([]byte, error) {
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

// JavaSnappy reads what snappy-java packs: blocks, each behind its length.
func JavaSnappy(in io.Reader) (io.Reader, error) {
	head := make([]byte, javaHeader)
	if _, err := io.ReadFull(in, head); err != nil || !IsJavaSnappy(head) {
		return nil, errSnappy
	}
	return &blocks{r: in}, nil
}

// IsJavaSnappy tells what snappy-java has packed by its beginning.
func IsJavaSnappy(b []byte) bool { return bytes.HasPrefix(b, []byte(javaSnappy)) }

// blocks reads block after block.
type blocks struct {
	r    io.Reader
	in   bytes.Buffer
	out  []byte
	left []byte // of out
}

// Read is part of io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		var size [4]byte
		if _, err := io.ReadFull(b.r, size[:]); err != nil { // io.EOF between blocks is the end
			return 0, cutShort(err)
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
		b.left = b.out
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// cutShort is what an end within something means.
func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errSnappy
	}
	return err
}

// maxRatio is above how often any block becomes its own length: 3 bytes can stand for 64.
const maxRatio = 22

// decodeBlock unpacks one block of snappy, into dst if it has room.
func decodeBlock(dst, in []byte) ([]byte, error) {
	size, n := binary.Uvarint(in)
	switch {
	case n <= 0:
		return nil, errSnappy
	case size > limit:
		return nil, errTooMuch
	case size > maxRatio*uint64(len(in)): // memory follows what is there, not what is claimed
		return nil, errSnappy
	}
	out, err := snappy.DecodeStrict(dst, in)
	if err != nil {
		return nil, errSnappy
	}
	return out, nil
}
