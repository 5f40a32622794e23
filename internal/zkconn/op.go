package zkconn

import (
	"cmp"
	"encoding/binary"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// An Op is an operation of ZooKeeper with its arguments: how its request is encoded, how its
// answer becomes a T, and what the link remembers of it (watches, ephemeral znodes,
// credentials). It belongs to no connection. A constructor such as GetData or Create makes it.
// Do and Exec send it alone; Add and AddEach send it through a Pipe, with many in flight.
type Op[T any] struct {
	code  int32
	path  string // for errors, as the user wrote it; may be empty
	write bool   // may change something, so the outcome is unknown if the answer is lost
	err   error  // why the operation cannot be sent, such as a malformed path; nil if it can
	// changes are the parts of a multi that does the same; nil if no multi can.
	changes []Change
	encode  func(e *jute.Encoder, root chroot)
	rest    func(e *jute.Encoder) // without encode: writes the fields after the path; may be nil
	decode  func(a *answer) T
	// effect updates the link's records after an answer, a refusal included. It runs in the
	// receiving goroutine, before any later frame is read. It may be nil.
	effect func(l *link, a *answer)
}

// reread returns the same operation with another result, which decode reads from the answer.
func reread[T, U any](o Op[T], decode func(*answer) U) Op[U] {
	return Op[U]{o.code, o.path, o.write, o.err, o.changes, o.encode, o.rest, decode, o.effect}
}

// usualFrame is the initial capacity for a request without its path, in bytes; enough for most.
const usualFrame = 96

// frame appends the operation's request with its length. The xid stays 0; the connection sets it.
func (o *Op[T]) frame(e *jute.Encoder, root chroot) {
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

// size returns how many changes an operation has: 1 unless it is a multi.
func (o *Op[T]) size() int { return max(1, len(o.changes)) }

// destroys returns how many of an operation's changes replace or remove something.
func (o *Op[T]) destroys() (n int) {
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

// A kind identifies a request or a change in an error.
type kind struct {
	code int32
	path string
}

// newest returns the first change that servers of 3.4 do not know. If there is none, it
// returns the operation itself.
func (o *Op[T]) newest() kind {
	for _, c := range o.changes {
		if _, is := newer[c.code]; is {
			return kind{c.code, c.path}
		}
	}
	return kind{o.code, o.path}
}

// destroys reports whether an operation of this code replaces or removes something.
func destroys(code int32) bool {
	return code == jute.OpDelete || code == jute.OpSetData || code == jute.OpSetACL
}

// trialOp returns the opcode, newer than 3.4, that the operation or one of its changes needs;
// 0 if there is none.
func (o *Op[T]) trialOp() int32 {
	newest := o.newest().code
	if _, is := newer[newest]; is {
		return newest
	}
	return 0
}

// An answer is a reply while it is decoded: the record after its header.
type answer struct {
	*jute.Decoder
	code Code
	zxid int64
	root chroot
	err  error // of an answer that is itself a refusal, such as a multi's

	fenced bool // err comes from the Fence

	more     int       // number of answers that will be read, this one included
	stats    []zk.Stat // room for their Stats
	acl      []zk.ACL  // the latest ACL that was read
	aclBytes []byte    // its encoding
}

// maxLists bounds the memory for the elements of an answer's lists, in bytes, besides the
// contents of the elements. Two million names need as much.
const maxLists = 32 << 20

// Stat reads a Stat. The Stats of answers that are read one after the other share an allocation.
func (a *answer) Stat() *zk.Stat {
	if len(a.stats) == 0 {
		a.stats = make([]zk.Stat, max(1, min(a.more, maxStats)))
	}
	st := &a.stats[0]
	a.stats = a.stats[1:]
	a.StatTo(st)
	return st
}

// maxStats is the largest number of Stats in one allocation.
const maxStats = 64

func (a *answer) nothing() struct{} { return struct{}{} }

// read decodes an answer. It returns an error if the answer is a refusal, or malformed.
func read[T any](a *answer, decode func(*answer) T) (none T, err error) {
	v := decode(a)
	if err := cmp.Or(a.err, a.Err()); err != nil {
		return none, err
	}
	return v, nil
}
