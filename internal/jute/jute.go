// Package jute encodes and decodes ZooKeeper's wire format: big-endian integers, strings and
// buffers that are preceded by their length (-1 for null), and vectors that are preceded by
// their number of elements. The records are defined in the file zookeeper.jute of ZooKeeper's
// sources.
//
// An Encoder appends values to a record, and a Decoder reads them. The package also contains the
// opcodes of requests, the validation of znode paths (PathFault) and the format of quotas
// (Quota).
package jute

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ReadBehind reads n bytes and appends them to b. A wrong value of n cannot make it allocate much
// more memory than there is data: it starts with space for step more bytes, and enlarges a full
// buffer at most fourfold.
func ReadBehind(r io.Reader, b []byte, n, step int) ([]byte, error) {
	for end := len(b) + n; len(b) < end; {
		have := len(b)
		more := min(end-have, max(step, 3*have))
		if cap(b) < have+more {
			b = append(make([]byte, 0, have+more), b...)
		}
		b = b[:have+more]
		if _, err := io.ReadFull(r, b[have:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// errShort reports a record that is too short for its fields, or that contains an impossible
// length.
var errShort = errors.New("jute: the record is truncated or malformed")

// ErrTooMany reports that the lists of a record exceed the limit of a Decoder.
var ErrTooMany = errors.New("jute: the lists of the record contain too many elements")

// An Encoder appends encoded values to the buffer B.
type Encoder struct{ B []byte }

// Byte appends one raw byte.
func (e *Encoder) Byte(v byte) { e.B = append(e.B, v) }

// Bool appends a boolean value as one byte.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Byte(1)
	} else {
		e.Byte(0)
	}
}

// Int appends 32-bit integers.
func (e *Encoder) Int(values ...int32) {
	for _, v := range values {
		e.B = binary.BigEndian.AppendUint32(e.B, uint32(v))
	}
}

// Long appends 64-bit integers.
func (e *Encoder) Long(values ...int64) {
	for _, v := range values {
		e.B = binary.BigEndian.AppendUint64(e.B, uint64(v))
	}
}

// MultiHeader appends the header that precedes each operation in a multi. op is the opcode, and err
// is the error code. If end is true, it appends the header that marks the end of the multi.
func (e *Encoder) MultiHeader(op int32, end bool, err int32) {
	e.Int(op)
	e.Bool(end)
	e.Int(err)
}

// String appends a string.
func (e *Encoder) String(s string) {
	e.Int(int32(len(s)))
	e.B = append(e.B, s...)
}

// Buffer appends a byte buffer; nil is written as null (length -1).
func (e *Encoder) Buffer(b []byte) {
	if b == nil {
		e.Int(-1)
		return
	}
	e.Int(int32(len(b)))
	e.B = append(e.B, b...)
}

// Strings appends a vector of strings.
func (e *Encoder) Strings(v []string) {
	e.Int(int32(len(v)))
	for _, s := range v {
		e.String(s)
	}
}

// A Decoder reads values from the front of a record. After the first failure, every method
// returns a zero value, so it is enough to check Err at the end of a record. Unless a limit is
// set, the memory for lists grows in proportion to the record.
type Decoder struct {
	b       []byte
	err     error
	budget  int  // number of bytes that may still be allocated for elements of lists
	limited bool // whether Limit was called, so that budget is in effect
}

// NewDecoder returns a Decoder of b. The caller must not change b afterwards.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Limit sets the maximum memory for the elements of all lists, in bytes, not counting the record
// itself. A list may need more memory than its record: an empty string has 4 bytes in the record,
// but 16 in memory.
func (d *Decoder) Limit(bytes int) { d.budget, d.limited = bytes, true }

// Next makes the Decoder continue with another record, b. The limit set by Limit applies to all
// records together.
func (d *Decoder) Next(b []byte) { d.b, d.err = b, nil }

// Err returns the first error: nil if there was none, errShort if the record is malformed, or
// ErrTooMany.
func (d *Decoder) Err() error { return d.err }

// Rest returns the bytes that have not been read yet.
func (d *Decoder) Rest() []byte { return d.b }

func (d *Decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err = cmp.Or(d.err, errShort)
		d.b = nil
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

// Byte reads one raw byte.
func (d *Decoder) Byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

// Bool reads a boolean.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int reads a 32-bit integer.
func (d *Decoder) Int() int32 {
	if p := d.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Long reads a 64-bit integer.
func (d *Decoder) Long() int64 {
	if p := d.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// Buffer reads a byte buffer. It returns nil for a null buffer, and a non-nil slice for an empty
// one. The result shares memory with the record.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	return d.take(int(n))
}

// String reads a string. It returns an empty string for a null string.
func (d *Decoder) String() string { return string(d.Buffer()) }

// Count reads the length of a vector. A null vector has length 0. size is the minimum size of an
// element in the record, and cost is the memory for an element, both in bytes. Count fails if the
// vector does not fit into the record or the limit, so the caller can safely allocate memory for
// that many elements.
func (d *Decoder) Count(size, cost int) int {
	n := d.Int()
	if d.err != nil || n == -1 {
		return 0
	}
	err := error(nil)
	switch {
	case n < 0 || int(n) > len(d.b)/size:
		err = errShort
	case d.limited && int(n) > d.budget/cost:
		err = ErrTooMany
	}
	if err != nil {
		d.err, d.b = err, nil
		return 0
	}
	d.budget -= int(n) * cost
	return int(n)
}

// Stat reads a znode's Stat.
func (d *Decoder) Stat() *zk.Stat {
	st := &zk.Stat{}
	d.StatTo(st)
	return st
}

// StatTo reads a znode's Stat into st, whose fields must all be 0.
func (d *Decoder) StatTo(st *zk.Stat) {
	p := d.take(StatLen)
	if p == nil {
		return
	}
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(p[at:])) }
	short := func(at int) int32 { return int32(binary.BigEndian.Uint32(p[at:])) }
	st.Czxid, st.Mzxid, st.Ctime, st.Mtime = long(0), long(8), long(16), long(24)
	st.Version, st.Cversion, st.Aversion = short(32), short(36), short(40)
	st.EphemeralOwner, st.DataLength, st.NumChildren, st.Pzxid = long(44), short(52), short(56), long(60)
}

// StatLen is the length of an encoded Stat, in bytes.
const StatLen = 6*8 + 5*4

// ACL reads an ACL. The result is never nil.
func (d *Decoder) ACL() []zk.ACL {
	const cost = 40
	n := d.Count(12, cost)
	acl := make([]zk.ACL, 0, n)
	for range n {
		acl = append(acl, zk.ACL{Perms: d.Int(), Scheme: d.String(), ID: d.String()})
	}
	return acl
}

// MultiHeader reads the header of the next operation in a multi. end reports whether the header
// marks the end of the multi instead. MultiHeader ignores the error code in the header, because
// the result of the operation contains the same code.
func (d *Decoder) MultiHeader() (op int32, end bool) {
	op, end, _ = d.MultiPart()
	return op, end
}

// MultiPart reads the same header as MultiHeader, but also returns the error code.
func (d *Decoder) MultiPart() (op int32, end bool, err int32) {
	return d.Int(), d.Bool(), d.Int()
}

// StringCost is the memory for a string without its characters, in bytes.
const StringCost = 16

// Strings reads a vector of strings. The strings share one allocation, which is freed only when
// none of them is in use any more.
func (d *Decoder) Strings() []string {
	n := d.Count(4, StringCost)
	end := 0 // index in d.b at which the last measured string ends
	for range n {
		size, ok := stringLength(d.b[end:])
		if !ok {
			d.err, d.b = errShort, nil
			return make([]string, 0)
		}
		end += 4 + size
	}
	all := string(d.b[:end])
	v := make([]string, 0, n)
	for range n {
		size, _ := stringLength(d.b)
		v = append(v, all[4:4+size])
		d.b, all = d.b[4+size:], all[4+size:]
	}
	return v
}

// stringLength returns the length of the string at the start of b, or 0 for a null string. It
// also reports whether b contains the complete string.
func stringLength(b []byte) (size int, complete bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	return max(0, int(n)), n >= -1 && int(n) <= len(b)-4
}

// Special transaction IDs (xids) in the headers of replies.
const (
	XidEvent = -1 // a watch event
	XidPing  = -2 // a ping or its reply
)

// Limits for the path of a znode.
const (
	MaxPath   = 1 << 20 // maximum length in bytes; a request with the path must fit into a server's frame limit
	MaxLevels = 10_000  // maximum number of levels, more than any real tree has
)

// PathFault checks the names in a path. It returns the first fault in the words of ZooKeeper's
// PathUtils, and the position of the fault in UTF-16 code units, counted from 0. If there is no
// fault, why is empty. The caller must check the slashes at the beginning and the end of the path.
func PathFault(path string) (at int, why string) {
	if isPlainPath(path) {
		return 0, ""
	}
	at = 1 // skip the leading slash
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case "":
			return at, "empty node name specified"
		case ".", "..":
			return at + len(name) - 1, "relative paths not allowed"
		}
		for _, r := range name {
			switch {
			case r == 0:
				return at, "null character not allowed"
			case invalidChar(r):
				return at, "invalid character"
			}
			at++
		}
		at++
	}
	return 0, ""
}

// isPlainPath reports whether a path is certainly valid because it contains only printable ASCII
// characters, and no name is empty or begins with a dot. Most paths are like this.
func isPlainPath(path string) bool {
	var last byte
	for i := range len(path) {
		c := path[i]
		if c < ' ' || c > '~' || last == '/' && (c == '/' || c == '.') {
			return false
		}
		last = c
	}
	return last != '/'
}

// invalidChar reports whether r is invalid in a path, according to the ranges in PathUtils.
// Characters beyond the Basic Multilingual Plane are surrogates in Java, so they are invalid.
// Invalid UTF-8 decodes to U+FFFD, which is invalid, too.
func invalidChar(r rune) bool {
	return r >= 0x01 && r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
