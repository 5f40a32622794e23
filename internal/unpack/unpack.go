// Package unpack takes off data what programs put around it before they keep it:
// gzip, zlib, snappy and base64, as far as they can be told by their marks.
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

// limit is how many bytes may come of some data: a few bytes of a compressed form can
// stand for gigabytes.
const limit = 16 << 20

// maxLayers is how many forms one inside the other are taken off.
const maxLayers = 8

// errTooMuch is the error of data that would become more than limit.
var errTooMuch = fmt.Errorf("the decoded data is larger than %d MiB", limit>>20)

// All takes off form after form, and names them from the outermost on. Data that bears no
// mark comes back as it is. Data that bears one and is broken is an error.
func All(data []byte) (plain []byte, forms []string, err error) {
	for range maxLayers {
		f := formOf(data)
		if f == nil {
			break
		}
		inner, err := f.open(data)
		if err != nil {
			return nil, forms, fmt.Errorf("looks like %s, but cannot be decoded: %w", f.name, err)
		}
		data, forms = inner, append(forms, f.name)
	}
	return data, forms, nil
}

// form is one way to keep data.
type form struct {
	name string
	is   func([]byte) bool
	open func([]byte) ([]byte, error)
}

// snappyStream is the chunk that a stream of snappy's framing format begins with, and
// javaSnappy the header of snappy-java's.
const (
	snappyStream = "\xff\x06\x00\x00sNaPpY"
	javaSnappy   = "\x82SNAPPY\x00"
)

var packed = []form{
	{"gzip", begins("\x1f\x8b\x08"), func(b []byte) ([]byte, error) {
		return inflate(gzip.NewReader(bytes.NewReader(b)))
	}},
	{"zlib", isZlib, func(b []byte) ([]byte, error) { return inflate(zlib.NewReader(bytes.NewReader(b))) }},
	{"snappy", begins(snappyStream), unframe},
	{"snappy", begins(javaSnappy), unblock},
}

// text64 comes last: what it stands for may be another form.
var text64 = form{"base64", isBase64, decode64}

func formOf(data []byte) *form {
	if f := packedForm(data); f != nil {
		return f
	}
	if text64.is(data) {
		return &text64
	}
	return nil
}

func packedForm(data []byte) *form {
	for i := range packed {
		if packed[i].is(data) {
			return &packed[i]
		}
	}
	return nil
}

func begins(mark string) func([]byte) bool {
	return func(b []byte) bool { return bytes.HasPrefix(b, []byte(mark)) }
}

// isZlib looks at the two bytes of the header, which have a checksum, and at the block
// behind them: text may begin with the same two.
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

// minBase64 is how long a word must be for base64: shorter ones are words.
const minBase64 = 8

// isBase64 tells base64, which has no mark, by what it stands for: another form, or text
// that people can read. Hardly any word is base64 of such.
func isBase64(b []byte) bool {
	plain, err := decode64(b)
	if err != nil || len(b) < minBase64 || len(plain) == 0 {
		return false
	}
	if packedForm(plain) != nil {
		return true
	}
	return utf8.Valid(plain) && bytes.IndexFunc(plain, func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.IsSpace(r)
	}) < 0
}

func decode64(b []byte) ([]byte, error) {
	return base64.StdEncoding.Strict().AppendDecode(nil, bytes.TrimSpace(b))
}
