package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
)

// compress returns data compressed by gzip or zlib.
func compress(t testing.TB, form string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	if form == "gzip" {
		w := gzip.NewWriter(&b)
		if _, err = w.Write(data); err == nil {
			err = w.Close()
		}
	} else {
		w := zlib.NewWriter(&b)
		if _, err = w.Write(data); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// block returns a snappy block, encoded manually from the description of the format, and its text:
// "abcd" as a literal; copies of 8 bytes from 4 before (1-byte offset), of 3 from 12 before (2-byte
// offset), and of 5 from 1 before (4-byte offset); and a literal with its length in the next byte.
func block() (packed []byte, plain string) {
	long := strings.Repeat("0123456789", 7)
	packed = []byte{90, 3 << 2, 'a', 'b', 'c', 'd', 1 | 4<<2, 4, 2 | 2<<2, 12, 0, 3 | 4<<2, 1, 0, 0, 0, 60 << 2, 69}
	return append(packed, long...), "abcd" + "abcdabcd" + "abc" + "ccccc" + long
}

// framed returns a block in snappy's framing format.
func framed(packed []byte, plain string) []byte {
	sum := crc32.Checksum([]byte(plain), crc32.MakeTable(crc32.Castagnoli))
	chunk := binary.LittleEndian.AppendUint32(nil, (sum>>15|sum<<17)+0xa282ead8)
	chunk = append(chunk, packed...)
	out := append([]byte(snappyStream), 0xfe, 2, 0, 0, 0, 0) // some padding
	return append(append(out, 0, byte(len(chunk)), byte(len(chunk)>>8), 0), chunk...)
}

// javaFramed returns a block in snappy-java's format.
func javaFramed(packed []byte) []byte {
	out := append([]byte(javaSnappy), 0, 0, 0, 1, 0, 0, 0, 1)
	return append(binary.BigEndian.AppendUint32(out, uint32(len(packed))), packed...)
}

func TestAll(t *testing.T) {
	text := []byte("dubbo:\n  timeout: 3000 # größer\n")
	b64 := func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }
	packed, plain := block()
	for name, c := range map[string]struct {
		data  []byte
		want  string
		forms []string
	}{
		"text":             {text, string(text), nil},
		"nothing":          {nil, "", nil},
		"a word":           {[]byte("password"), "password", nil},
		"a hash":           {[]byte("d41d8cd98f00b204e9800998ecf8427e"), "d41d8cd98f00b204e9800998ecf8427e", nil},
		"begins like zlib": {[]byte("x\x9c is how it begins"), "x\x9c is how it begins", nil},
		"gzip":             {compress(t, "gzip", text), string(text), []string{"gzip"}},
		"zlib":             {compress(t, "zlib", text), string(text), []string{"zlib"}},
		"base64":           {append(b64(text), '\n'), string(text), []string{"base64"}},
		"base64 of gzip":   {b64(compress(t, "gzip", []byte{0, 1})), "\x00\x01", []string{"base64", "gzip"}},
		"gzip of zlib":     {compress(t, "gzip", compress(t, "zlib", text)), string(text), []string{"gzip", "zlib"}},
		"empty gzip":       {compress(t, "gzip", nil), "", []string{"gzip"}},
		"snappy":           {framed(packed, plain), plain, []string{"snappy"}},
		"snappy of Java":   {javaFramed(packed), plain, []string{"snappy"}},
	} {
		got, forms, err := All(c.data)
		if err != nil || string(got) != c.want || !slices.Equal(forms, c.forms) {
			t.Errorf("%s: %q by %v: %v", name, got, forms, err)
		}
	}
}

func TestBroken(t *testing.T) {
	packed, plain := block()
	bad := bytes.Clone(framed(packed, plain))
	bad[len(bad)-1]++
	zipBomb := compress(t, "gzip", make([]byte, limit+1))
	bomb := binary.AppendUvarint(nil, 1<<40)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"gzip cut":        {compress(t, "gzip", []byte("data"))[:12], "the data looks like gzip, but cannot be decoded: the compressed data is truncated"},
		"bomb":            {zipBomb, "the data looks like gzip, but cannot be decoded: the decoded data is larger than 16 MiB"},
		"bomb in a bomb":  {compress(t, "zlib", zipBomb), "larger than 16 MiB"},
		"snappy's claim":  {javaFramed(bomb), "larger than 16 MiB"},
		"snappy changed":  {bad, "the data looks like snappy, but cannot be decoded: the checksum of the decompressed data does not match"},
		"snappy cut":      {javaFramed(packed)[:40], "the compressed data is damaged"},
		"copy from above": {javaFramed([]byte{4, 1, 9}), "the compressed data is damaged"},
	} {
		got, _, err := All(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, %v; want %q", name, len(got), err, c.want)
		}
	}
}

func FuzzAll(f *testing.F) {
	packed, plain := block()
	f.Add(framed(packed, plain))
	f.Add(javaFramed(packed))
	f.Add(compress(f, "gzip", []byte("data")))
	f.Add(compress(f, "zlib", []byte("data")))
	f.Add([]byte("aGVsbG8gd29ybGQ="))
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, forms, err := All(data)
		if len(plain) > limit {
			t.Errorf("%d bytes", len(plain))
		}
		if err == nil && len(forms) == 0 && !bytes.Equal(plain, data) {
			t.Error("data without a mark was changed")
		}
	})
}
