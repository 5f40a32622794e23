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
	write bool   // it may change something, so that a lost answer matters
	err   error  // why it cannot be sent at all, such as a malformed path
	// changes are what a multi holds to do the same; nil if none can.
	changes []Change
	encode  func(e *jute.Encoder, root chroot)
	rest    func(e *jute.Encoder) // without encode: what stands behind the path; may be nil
	decode  func(a *answer) T
	// effect runs in the receiving goroutine, before any later frame is looked at. It sees
	// refusals too. It may be nil.
	effect func(l *link, a *answer)
}

// reread is the same request, of whose answer something else is taken.
func reread[T, U any](o Op[T], decode func(*answer) U) Op[U] {
	return Op[U]{o.code, o.path, o.write, o.err, o.changes, o.encode, o.rest, decode, o.effect}
}

// usualFrame has room for most requests but for their path.
const usualFrame = 96

// frame appends an operation's request, but for the xid.
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

// A kind names a request or a change in an error.
type kind struct {
	code int32
	path string
}

// newest returns the change that a server may be too old for; without one, the operation.
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

// trialOp is the opcode of those newer than 3.4 that an operation needs, itself or in a
// multi; 0 if it needs none.
func (o *Op[T]) trialOp() int32 {
	newest := o.newest().code
	if _, is := newer[newest]; is {
		return newest
	}
	return 0
}

// answer is a reply while it is read: the record behind its header, and what the
// paths in it begin with.
type answer struct {
	*jute.Decoder
	code Code
	zxid int64
	root chroot
	err  error // of an answer that is itself a refusal, such as a multi's

	fenced bool // err is that of the Fence

	more     int       // how many are about to be read, at most, together with this one
	stats    []zk.Stat // for them
	acl      []zk.ACL  // the latest that was read
	aclBytes []byte    // which it was read from
}

// maxLists is how many bytes the elements of lists in an answer may take, besides their
// own: those of two million names.
const maxLists = 32 << 20

// Stat is that of the answer. Those of answers that are read one after the other are made
// together.
func (a *answer) Stat() *zk.Stat {
	if len(a.stats) == 0 {
		a.stats = make([]zk.Stat, max(1, min(a.more, maxStats)))
	}
	st := &a.stats[0]
	a.stats = a.stats[1:]
	a.StatTo(st)
	return st
}

// maxStats is how many Stats are made together.
const maxStats = 64

func (a *answer) nothing() struct{} { return struct{}{} }

// read decodes an answer, which may itself be a refusal, or malformed.
func read[T any](a *answer, decode func(*answer) T) (none T, err error) {
	v := decode(a)
	if err := cmp.Or(a.err, a.Err()); err != nil {
		return none, err
	}
	return v, nil
}
