package unpack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
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

func TestData(t *testing.T) {
	text := []byte("dubbo:\n  timeout: 3000 # größer\n")
	zipped := compress(t, "zlib", text)
	packed, plain := block()
	for name, c := range map[string]struct {
		data   []byte
		want   string
		format string
	}{
		"text":             {text, string(text), ""},
		"nothing":          {nil, "", ""},
		"base64":           {[]byte("aGVsbG8gd29ybGQ="), "aGVsbG8gd29ybGQ=", ""},
		"begins like zlib": {[]byte("x\x9c is how it begins"), "x\x9c is how it begins", ""},
		"gzip":             {compress(t, "gzip", text), string(text), "gzip"},
		"zlib":             {zipped, string(text), "zlib"},
		"zlib in gzip":     {compress(t, "gzip", zipped), string(zipped), "gzip"},
		"empty gzip":       {compress(t, "gzip", nil), "", "gzip"},
		"snappy":           {framed(packed, plain), plain, "snappy"},
		"snappy of Java":   {javaFramed(packed), plain, "snappy"},
	} {
		got, format, err := Data(c.data)
		if err != nil || string(got) != c.want || format != c.format {
			t.Errorf("%s: %q from %q: %v", name, got, format, err)
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
		"bomb of zlib":    {compress(t, "zlib", make([]byte, limit+1)), "larger than 16 MiB"},
		"snappy's claim":  {javaFramed(bomb), "larger than 16 MiB"},
		"snappy changed":  {bad, "the data looks like snappy, but cannot be decoded: the checksum of the decompressed data does not match"},
		"snappy cut":      {javaFramed(packed)[:40], "the compressed data is damaged"},
		"copy from above": {javaFramed([]byte{4, 1, 9}), "the compressed data is damaged"},
	} {
		got, _, err := Data(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, %v; want %q", name, len(got), err, c.want)
		}
	}
}

func FuzzData(f *testing.F) {
	packed, plain := block()
	f.Add(framed(packed, plain))
	f.Add(javaFramed(packed))
	f.Add(compress(f, "gzip", []byte("data")))
	f.Add(compress(f, "zlib", []byte("data")))
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, data []byte) {
		plain, format, err := Data(data)
		if len(plain) > limit {
			t.Errorf("%d bytes", len(plain))
		}
		if err == nil && format == "" && !bytes.Equal(plain, data) {
			t.Error("data without a known format was changed")
		}
	})
}
