package zkconn

import (
	"cmp"
	"context"
	"encoding/binary"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// An Op is a ZooKeeper operation with its arguments, such as the one that GetData or Create
// returns. It defines how the request is encoded, how the answer is decoded into a T, and which
// records of the link it changes (watches, ephemeral znodes, credentials). An Op is not tied to a
// connection. Do and Exec send one operation and wait for the answer. Add and AddEach send
// operations through a Pipe, with many in flight.
type Op[T any] struct {
	operation
	decode func(a *answer) T
}

// An operation is the part of an Op that does not depend on the type of the result.
type operation struct {
	code    int32  // opcode of the request
	path    string // path of the znode, as the user wrote it, also for errors; may be empty
	write   bool   // whether the operation may have an effect, so that its outcome is unknown if the answer is lost
	err     error  // why the operation cannot be sent, such as a malformed path; nil if it can
	version int64  // version that a write requires, -1 for any; only for the opcodes in versionKinds
	// changes are the parts of a multi that would have the same effect as this operation; nil if no
	// multi can do that.
	changes []Change
	encode  func(e *jute.Encoder, root chroot)
	rest    func(e *jute.Encoder) // used if encode is nil: writes the fields after the path; may be nil
	// effect updates the link's records after an answer, even if that is a refusal. It runs
	// in the receiving goroutine, before any later frame is read. It may be nil.
	effect func(l *link, a *answer)
}

// usualFrame is the initial capacity of a request's buffer, in bytes, without the path. It is
// enough for most requests.
const usualFrame = 96

// frame appends the operation's request to e, with its length. The xid is 0 until the connection
// sets it.
func (o *operation) frame(e *jute.Encoder, root chroot) {
	start := len(e.B)
	e.Int(0, 0, o.code)
	if o.encode != nil {
		o.encode(e, root)
	} else {
		e.String(root.server(o.path))
		if o.rest != nil {
			o.rest(e)
		}
	}
	binary.BigEndian.PutUint32(e.B[start:], uint32(len(e.B)-start-4))
}

// size returns the number of changes that the Outcome of o counts: 1 unless o is a multi.
func (o *operation) size() int { return max(1, len(o.changes)) }

// destroys returns the number of changes of o that delete a znode, or replace its data or ACL.
func (o *operation) destroys() (n int) {
	if o.changes == nil && destroys(o.code) {
		return 1
	}
	for _, c := range o.changes {
		if destroys(c.code) {
			n++
		}
	}
	return n
}

// record adds an entry for the operation to the Recorder of ctx. It returns nil if there is no
// Recorder, and for a read.
func (o *operation) record(ctx context.Context) *record {
	if !o.write {
		return nil
	}
	return recorderOf(ctx).record(o.size(), o.destroys())
}

// A kind describes a request or a change for error messages.
type kind struct {
	code    int32
	path    string
	version int64 // see operation.version
}

func (o *operation) kind() kind { return kind{o.code, o.path, o.version} }

// newest returns the first change of o that ZooKeeper 3.4 does not support. If there is no such
// change, it returns the operation itself.
func (o *operation) newest() kind {
	for _, c := range o.changes {
		if _, is := newer[c.code]; is {
			return c.kind()
		}
	}
	return o.kind()
}

// destroys reports whether a change with this opcode deletes a znode, or replaces its data or
// ACL.
func destroys(code int32) bool {
	return code == jute.OpDelete || code == jute.OpSetData || code == jute.OpSetACL
}

// trialOp returns the opcode of the first change of o that ZooKeeper 3.4 does not support, or of o
// itself if it has no changes. It returns 0 if ZooKeeper 3.4 supports all of o.
func (o *operation) trialOp() int32 {
	newest := o.newest().code
	if _, is := newer[newest]; is {
		return newest
	}
	return 0
}

// An answer is a server's reply while it is decoded. The Decoder reads the body after the header.
type answer struct {
	*jute.Decoder
	code Code
	zxid int64
	root chroot
	err  error // error in the body, such as the refusal of a multi; nil if there is none

	fenced bool // whether err is the Fence's error, because the check of a znode failed

	more     int       // number of answers still to be read, including this one
	stats    []zk.Stat // Stats that were allocated for these answers and are not used yet
	acl      []zk.ACL  // the ACL that was read last
	aclBytes []byte    // the encoding of acl
}

// maxLists is the limit for the memory of the lists in one answer, in bytes, without the contents
// of their elements. It is enough for two million names.
const maxLists = 32 << 20

// Stat reads a Stat. The Stats of answers that are read one after another share an allocation.
func (a *answer) Stat() *zk.Stat {
	if len(a.stats) == 0 {
		a.stats = make([]zk.Stat, max(1, min(a.more, maxStats)))
	}
	st := &a.stats[0]
	a.stats = a.stats[1:]
	a.StatTo(st)
	return st
}

// maxStats is the maximum number of Stats that are allocated at once.
const maxStats = 64

func (a *answer) nothing() struct{} { return struct{}{} }

// read decodes the answer a. It returns an error if the answer is a refusal or malformed.
func read[T any](a *answer, decode func(*answer) T) (none T, err error) {
	v := decode(a)
	if err := cmp.Or(a.err, a.Err()); err != nil {
		return none, err
	}
	return v, nil
}
