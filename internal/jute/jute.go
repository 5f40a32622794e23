// Package jute encodes and decodes ZooKeeper's wire format: big-endian
// integers, length-prefixed strings and buffers (length -1 is null), and
// counted vectors. The record layouts that use it are in zookeeper.jute of the
// ZooKeeper sources.
package jute

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/go-zookeeper/zk"
)

// ReadBehind reads n bytes behind b, in steps of four times what is there: memory grows
// with what really arrives, never with what a length field claims.
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

// errShort is the error of a Decoder that was asked for more bytes than the
// record has, or that met a length that cannot be.
var errShort = errors.New("jute: the record is truncated or malformed")

// ErrTooMany is the error of a Decoder with a limit whose lists have too many elements.
var ErrTooMany = errors.New("jute: the lists of the record contain too many elements")

// Encoder appends values to B.
type Encoder struct{ B []byte }

// Byte appends one raw byte.
func (e *Encoder) Byte(v byte) { e.B = append(e.B, v) }

// Bool appends a boolean as one byte.
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

// MultiHeader appends what stands before each part of a multi, and at its end.
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

// Decoder takes values off the front of a record. After the first failure every
// further call returns a zero value, so that a record can be read whole and Err
// looked at once. It never allocates more than the record it was given.
type Decoder struct {
	b     []byte
	err   error
	room  int // bytes that elements of lists may still take
	tight bool
}

// NewDecoder reads from b, which it keeps.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Limit bounds how many bytes the elements of all lists may take in memory, besides those
// that are in the record. A string takes 16, and may have as few as 4 in the record.
func (d *Decoder) Limit(bytes int) { d.room, d.tight = bytes, true }

// Next goes on with another record. The limit stays for both together.
func (d *Decoder) Next(b []byte) { d.b, d.err = b, nil }

// Err is nil, or errShort once the record has turned out malformed, or ErrTooMany.
func (d *Decoder) Err() error { return d.err }

// Rest returns the bytes not read yet.
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

// Byte takes one raw byte.
func (d *Decoder) Byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

// Bool takes a boolean.
func (d *Decoder) Bool() bool { return d.Byte() != 0 }

// Int takes a 32-bit integer.
func (d *Decoder) Int() int32 {
	if p := d.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// Long takes a 64-bit integer.
func (d *Decoder) Long() int64 {
	if p := d.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

// Buffer takes a buffer; null is nil, an empty buffer is not. The result shares
// the record's memory.
func (d *Decoder) Buffer() []byte {
	n := d.Int()
	if d.err != nil || n == -1 {
		return nil
	}
	return d.take(int(n))
}

// String takes a string; null reads as "".
func (d *Decoder) String() string { return string(d.Buffer()) }

// Count takes the length of a vector whose elements have at least size bytes each in the
// record, and take cost bytes in memory; a null vector has none. A count that the record
// cannot hold, or that is over the limit, is an error, so the caller may allocate by it.
func (d *Decoder) Count(size, cost int) int {
	n := d.Int()
	if d.err != nil || n == -1 {
		return 0
	}
	err := error(nil)
	switch {
	case n < 0 || int(n) > len(d.b)/size:
		err = errShort
	case d.tight && int(n) > d.room/cost:
		err = ErrTooMany
	}
	if err != nil {
		d.err, d.b = err, nil
		return 0
	}
	d.room -= int(n) * cost
	return int(n)
}

// Stat decodes what a server tells of a znode.
func (d *Decoder) Stat() *zk.Stat {
	st := &zk.Stat{}
	d.StatTo(st)
	return st
}

// StatTo is Stat for who has room for it, which is to be empty.
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

// StatLen is how many bytes a Stat has.
const StatLen = 6*8 + 5*4

// ACL decodes an access control list, which is never nil.
func (d *Decoder) ACL() []zk.ACL {
	const cost = 40
	n := d.Count(12, cost)
	acl := make([]zk.ACL, 0, n)
	for range n {
		acl = append(acl, zk.ACL{Perms: d.Int(), Scheme: d.String(), ID: d.String()})
	}
	return acl
}

// MultiHeader takes the operation of a multi's next part, and whether that is the
// end instead. The error in it says no more than the part itself, in what ZooKeeper sends.
func (d *Decoder) MultiHeader() (op int32, end bool) {
	op, end, _ = d.MultiPart()
	return op, end
}

// MultiPart is MultiHeader with the error.
func (d *Decoder) MultiPart() (op int32, end bool, err int32) {
	return d.Int(), d.Bool(), d.Int()
}

// StringCost is how many bytes a string takes in memory besides its own.
const StringCost = 16

// Strings takes a vector of strings. They share memory: each keeps all.
func (d *Decoder) Strings() []string {
	n := d.Count(4, StringCost)
	end := 0 // of the strings in d.b
	for range n {
		size, ok := length(d.b[end:])
		if !ok {
			d.err, d.b = errShort, nil
			return make([]string, 0)
		}
		end += 4 + size
	}
	all := string(d.b[:end])
	v := make([]string, 0, n)
	for range n {
		size, _ := length(d.b)
		v = append(v, all[4:4+size])
		d.b, all = d.b[4+size:], all[4+size:]
	}
	return v
}

// length returns how many bytes the string at the start of b has, and whether b holds it
// whole. A null string has none.
func length(b []byte) (size int, whole bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := int32(binary.BigEndian.Uint32(b))
	return max(0, int(n)), n >= -1 && int(n) <= len(b)-4
}

// The xids of frames that are neither a client's request nor the answer to one, but
// that a ping has its own in both directions.
const (
	XidEvent = -1
	XidPing  = -2
)

// The opcodes of requests (ZooDefs.OpCode).
const (
	OpCreate               = 1
	OpDelete               = 2
	OpExists               = 3
	OpGetData              = 4
	OpSetData              = 5
	OpGetACL               = 6
	OpSetACL               = 7
	OpGetChildren          = 8
	OpSync                 = 9
	OpPing                 = 11
	OpGetChildren2         = 12
	OpCheck                = 13
	OpMulti                = 14
	OpCreate2              = 15
	OpReconfig             = 16
	OpCheckWatches         = 17
	OpRemoveWatches        = 18
	OpCreateContainer      = 19
	OpDeleteContainer      = 20
	OpCreateTTL            = 21
	OpMultiRead            = 22
	OpAuth                 = 100
	OpSetWatches           = 101
	OpSASL                 = 102
	OpGetEphemerals        = 103
	OpGetAllChildrenNumber = 104
	OpSetWatches2          = 105
	OpAddWatch             = 106
	OpWhoAmI               = 107
	OpCloseSession         = -11
)

// Creates reports whether an operation makes a znode.
func Creates(op int32) bool {
	return op == OpCreate || op == OpCreate2 || op == OpCreateContainer || op == OpCreateTTL
}

// Writes reports whether an operation may change a znode or the ensemble.
func Writes(op int32) bool {
	return Creates(op) || op == OpDelete || op == OpSetData || op == OpSetACL || op == OpMulti || op == OpReconfig
}

// Limits of a path that a znode can have: a request to a server must hold it, in bytes,
// and the levels are as many as anybody has use for.
const (
	MaxPath   = 1 << 20
	MaxLevels = 10_000
)

// PathFault finds what is wrong with the names in a path, as clients and servers
// see it alike, in PathUtils' words; its position counts UTF-16 units from 0. What
// a path begins and ends with is the caller's to look at.
func PathFault(path string) (at int, why string) {
	if plain(path) {
		return 0, ""
	}
	at = 1 // the leading slash
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

// plain tells of most paths that nothing can be wrong with them: they have printable ASCII
// alone, and no name is empty or begins with a dot.
func plain(path string) bool {
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

// invalidChar has the ranges of PathUtils. Characters beyond the basic plane are
// two surrogates to Java, hence invalid; invalid UTF-8 decodes to U+FFFD.
func invalidChar(r rune) bool {
	return r >= 0x01 && r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}
