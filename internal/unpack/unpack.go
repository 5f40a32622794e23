// Package unpack decodes znode data that other programs have compressed or encoded: gzip, zlib,
// snappy (in the framing format or snappy-java's format) and base64. It detects the encoding from
// the data. The function All also decodes data with several nested encodings.
package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// limit is the maximum size of decoded data, in bytes. Without it, a few compressed bytes could
// expand to gigabytes.
const limit = 16 << 20

// maxLayers is the maximum number of nested encodings that All removes.
const maxLayers = 8

// errTooMuch reports that decoded data is larger than limit.
var errTooMuch = fmt.Errorf("the decoded data is larger than %d MiB", limit>>20)

// All removes all encodings of data and returns the names of the encodings, outermost first.
// Data without a known encoding is returned unchanged. If data looks encoded but is damaged, All
// fails.
func All(data []byte) (plain []byte, forms []string, err error) {
	for range maxLayers {
		f := formOf(data)
		if f == nil {
			break
		}
		inner, err := f.open(data)
		if err != nil {
			return nil, forms, fmt.Errorf("the data looks like %s, but cannot be decoded: %w", f.name, err)
		}
		data, forms = inner, append(forms, f.name)
	}
	return data, forms, nil
}

// A form is an encoding of data.
type form struct {
	name string
	is   func([]byte) bool            // reports whether data has this encoding
	open func([]byte) ([]byte, error) // decodes data
}

// The first bytes of snappy data in each format.
const (
	snappyStream = "\xff\x06\x00\x00sNaPpY" // the first chunk of the framing format
	javaSnappy   = "\x82SNAPPY\x00"         // the magic number of snappy-java's format
)

var compressedForms = []form{
	{"gzip", begins("\x1f\x8b\x08"), func(b []byte) ([]byte, error) {
		return inflate(gzip.NewReader(bytes.NewReader(b)))
	}},
	{"zlib", isZlib, func(b []byte) ([]byte, error) { return inflate(zlib.NewReader(bytes.NewReader(b))) }},
	{"snappy", begins(snappyStream), decodeFramed},
	{"snappy", begins(javaSnappy), decodeJava},
}

// base64Form is tried after all other forms, because base64 can only be detected by decoding it.
var base64Form = form{"base64", isBase64, decode64}

func formOf(data []byte) *form {
	if f := compressedForm(data); f != nil {
		return f
	}
	if base64Form.is(data) {
		return &base64Form
	}
	return nil
}

func compressedForm(data []byte) *form {
	for i := range compressedForms {
		if compressedForms[i].is(data) {
			return &compressedForms[i]
		}
	}
	return nil
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

// minBase64 is the minimum length of base64 data, in bytes. Shorter data could be an ordinary
// word.
const minBase64 = 8

// isBase64 reports whether b is the base64 encoding of compressed data or of readable text.
// Base64 has no magic number, but an ordinary word hardly ever decodes to either of these.
func isBase64(b []byte) bool {
	plain, err := decode64(b)
	if err != nil || len(b) < minBase64 || len(plain) == 0 {
		return false
	}
	if compressedForm(plain) != nil {
		return true
	}
	return utf8.Valid(plain) && bytes.IndexFunc(plain, func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.IsSpace(r)
	}) < 0
}

func decode64(b []byte) ([]byte, error) {
	return base64.StdEncoding.Strict().AppendDecode(nil, bytes.TrimSpace(b))
}
