package unpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// errSnappy is the error of snappy data that is none.
var errSnappy = errors.New("the compressed data is damaged")

// unframe reads snappy's framing format: chunks of a type, a length and a checksum.
func unframe(in []byte) (out []byte, err error) {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for len(in) > 0 {
		if len(in) < 4 {
			return nil, errSnappy
		}
		kind, n := in[0], int(in[1])|int(in[2])<<8|int(in[3])<<16
		if in = in[4:]; n > len(in) {
			return nil, errSnappy
		}
		chunk := in[:n]
		in = in[n:]
		switch {
		case kind > 1 && kind < 0x80:
			return nil, errors.New("the compressed data contains chunks of an unknown type")
		case kind > 1: // padding, and what may be passed over
			continue
		case n < 4:
			return nil, errSnappy
		}
		start := len(out)
		if kind == 0 {
			out, err = appendBlock(out, chunk[4:])
		} else {
			out = append(out, chunk[4:]...)
		}
		if err != nil {
			return nil, err
		}
		if len(out) > limit {
			return nil, errTooMuch
		}
		sum := crc32.Checksum(out[start:], castagnoli)
		if sum>>15|sum<<17 != binary.LittleEndian.Uint32(chunk)-0xa282ead8 {
			return nil, errors.New("the checksum of the decompressed data does not match")
		}
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
		if b.out, err = appendBlock(b.out[:0], b.in.Bytes()); err != nil {
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

// appendBlock unpacks one block of snappy: its length, and then literals, and copies of
// what has come before.
func appendBlock(out, in []byte) ([]byte, error) {
	size, n := binary.Uvarint(in)
	if n <= 0 {
		return nil, errSnappy
	}
	in = in[n:]
	start := len(out)
	if size > limit || start+int(size) > limit {
		return nil, errTooMuch
	}
	for len(in) > 0 {
		tag := in[0]
		in = in[1:]
		length, extra, from := elementOf(tag)
		if extra > len(in) {
			return nil, errSnappy
		}
		var more [4]byte
		copy(more[:], in[:extra])
		number := int(binary.LittleEndian.Uint32(more[:]))
		in = in[extra:]
		if tag&3 == 0 { // a literal
			if extra > 0 {
				length = number + 1
			}
			if length > len(in) || len(out)-start+length > int(size) {
				return nil, errSnappy
			}
			out, in = append(out, in[:length]...), in[length:]
			continue
		}
		offset := from | number
		if offset == 0 || offset > len(out)-start || len(out)-start+length > int(size) {
			return nil, errSnappy
		}
		for range length { // the copy may overlap with what it makes
			out = append(out, out[len(out)-offset])
		}
	}
	if len(out)-start != int(size) {
		return nil, errSnappy
	}
	return out, nil
}

// elementOf reads a tag: how long the element is, by how many bytes its number follows,
// and the upper bits of the number if it has them.
func elementOf(tag byte) (length, extra, upper int) {
	switch tag & 3 {
	case 0:
		if length = int(tag>>2) + 1; length > 60 {
			extra = length - 60
		}
	case 1:
		length, extra, upper = 4+int(tag>>2&7), 1, int(tag>>5)<<8
	case 2:
		length, extra = 1+int(tag>>2), 2
	default:
		length, extra = 1+int(tag>>2), 4
	}
	return length, extra, upper
}
