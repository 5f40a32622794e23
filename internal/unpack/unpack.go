// Package unpack decompresses data that other programs have compressed with gzip, zlib or snappy (in
// the framing format or snappy-java's format). It detects the format from the data.
package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
)

// limit is the maximum size of decompressed data, in bytes. Without it, a few compressed bytes could
// expand to gigabytes.
const limit = 16 << 20

// errTooMuch reports that decompressed data is larger than limit.
var errTooMuch = fmt.Errorf("the decoded data is larger than %d MiB", limit>>20)

// Data decompresses data and returns the name of its format. Data without a known format is returned
// unchanged, and its format is empty. If data looks compressed but is damaged, Data fails. If the
// result is compressed again, Data does not decompress it.
func Data(data []byte) (plain []byte, format string, err error) {
	for _, f := range forms {
		if !f.is(data) {
			continue
		}
		plain, err := f.open(data)
		if err != nil {
			return nil, "", fmt.Errorf("the data looks like %s, but cannot be decoded: %w", f.name, err)
		}
		return plain, f.name, nil
	}
	return data, "", nil
}

// A form is a format of compressed data.
type form struct {
	name string
	is   func([]byte) bool            // reports whether data has this format
	open func([]byte) ([]byte, error) // decompresses data
}

// The first bytes of snappy data in each format.
const (
	snappyStream = "\xff\x06\x00\x00sNaPpY" // the first chunk of the framing format
	javaSnappy   = "\x82SNAPPY\x00"         // the magic number of snappy-java's format
)

var forms = []form{
	{"gzip", begins("\x1f\x8b\x08"), func(b []byte) ([]byte, error) {
		return inflate(gzip.NewReader(bytes.NewReader(b)))
	}},
	{"zlib", isZlib, func(b []byte) ([]byte, error) {
		return inflate(zlib.NewReader(bytes.NewReader(b)))
	}},
	{"snappy", begins(snappyStream), decodeFramed},
	{"snappy", begins(javaSnappy), decodeJava},
}

func begins(mark string) func([]byte) bool {
	return func(b []byte) bool { return bytes.HasPrefix(b, []byte(mark)) }
}

// isZlib reports whether b is zlib data. It checks the header, which has two bytes including a
// checksum. It also decodes the beginning of the first block, because text may begin with the
// same two bytes.
func isZlib(b []byte) bool {
	if len(b) < 8 || b[0]&0x0f != 8 || b[0]>>4 > 7 || (int(b[0])<<8|int(b[1]))%31 != 0 || b[1]&0x20 != 0 {
		return false
	}
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return false
	}
	_, err = io.CopyN(io.Discard, r, 1)
	return err == nil || err == io.EOF
}

func inflate(r io.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case len(b) > limit:
		return nil, errTooMuch
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the compressed data is truncated")
	}
	return b, err
}
