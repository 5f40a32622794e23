package wire

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// Limits on the memory for replies, in bytes. ZooKeeper limits the size of requests but not of
// replies: a list of a million children can take 44 MB. A larger Config.MaxRequest raises MaxReply
// and maxData, as jute.maxbuffer does in the Java client.
const (
	MaxReply  = 48 << 20  // size of one reply
	maxData   = 16 << 20  // size of a reply with the data of one znode
	MaxMemory = 64 << 20  // total size of all replies in use
	maxFrame  = 256 << 20 // size of a reply to multiRead, which zksh can skip
	uncounted = 4 << 10   // size up to which replies are always read and not counted
)

// Memory counts the bytes of replies and of other data that is held in memory.
type Memory struct{ bytes atomic.Int64 }

// Add adds n bytes to the count. n may be negative.
func (m *Memory) Add(n int64) { m.bytes.Add(n) }

// Bytes returns the number of bytes that are counted now.
func (m *Memory) Bytes() int64 { return m.bytes.Load() }

// hold counts the bytes of the reply f until the garbage collector has freed it.
func (m *Memory) hold(f []byte) {
	n := int64(len(f))
	m.bytes.Add(n)
	runtime.AddCleanup(&f[0], func(n int64) { m.bytes.Add(-n) }, n)
}

// hasRoom reports whether n more bytes fit into MaxMemory. Only a garbage collection finds out
// which replies are no longer used. Therefore hasRoom runs some collections before it returns
// false, and waits up to 100 ms for callers to finish with their replies.
func (m *Memory) hasRoom(n int) bool {
	const collections, moment = 5, 20 // moment is the duration of one wait, in milliseconds
	for i := range collections * moment {
		if m.bytes.Load()+int64(n) <= MaxMemory {
			return true
		}
		if i%moment == 0 {
			runtime.GC()
		}
		time.Sleep(time.Millisecond) // let the cleanups run, which have their own goroutines
	}
	return false
}

// Held determines whether zksh may skip the reply to a request when memory is short.
type Held int

// The values of type Held.
const (
	HeldIfRoom Held = iota // the reply is read if memory has room for it; otherwise the caller sends the request again
	HeldInLine             // like HeldIfRoom, but replies are printed in order, which frees the memory of earlier ones
	HeldAlways             // the reply is always read, because the caller sends nothing more before it arrives
)

// admit looks at the header of a reply of n bytes, and reports whether the caller may read the
// reply. If it returns false without an error, it has skipped the reply, and the request has an
// error code as its answer. If it returns an error, the connection must end.
//
// A reply that exceeds the limit for its request ends the connection. A multiRead gets the code
// MarshallingError instead, and its sender then reads the znodes one by one. If memory has no
// room for a reply besides the earlier ones, its request gets the code Throttled, as from an
// overloaded server. The sender then repeats that request alone, and reads less at a time.
func (k *Conn) admit(n int) (bool, error) {
	if n > maxFrame {
		return false, tooLong(n, maxFrame)
	}
	head, err := k.r.Peek(4 + 8 + 4)
	if err != nil {
		return false, cutShort(err, 1)
	}
	d := jute.NewDecoder(head)
	xid, zxid := d.Int(), d.Long()
	req, size := k.requestFor(xid)
	switch limit, raise := k.replyLimit(req, size); {
	case req == nil && xid >= xidBase:
		return false, neverAsked(xid)
	case n > limit && req != nil && req.Op == jute.OpMultiRead:
		return false, k.discardReply(n, xid, Reply{Zxid: zxid, Code: MarshallingError})
	case n > limit:
		return false, Fault{Text: tooLong(n, limit).Text + raise}
	case req == nil || jute.Writes(req.Op):
		return true, nil
	case req.Held == HeldAlways:
		k.crowded = false
		return true, nil
	case !(k.crowded && req.Held == HeldInLine) && k.l.cfg.Memory.hasRoom(n):
		return true, nil
	}
	k.crowded = true // later lines are printed after this one, so their replies would stay in memory
	return false, k.discardReply(n, xid, Reply{Zxid: zxid, Code: Throttled})
}

// requestFor returns the request with the given xid, to which a reply has arrived, and the size of
// the request in bytes. It returns nil if zksh has sent no such request.
func (k *Conn) requestFor(xid int32) (req *Request, size int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if xid < xidBase {
		return nil, 0
	}
	if i, _ := k.awaited(xid); i >= 0 {
		return k.pending[i], k.pending[i].size
	}
	return nil, 0
}

// replyLimit returns the maximum size of the reply to the request req, in bytes. raise is a hint
// for the user on how to raise that limit. size is the size of the request. If req is nil, the
// reply is a watch event.
func (k *Conn) replyLimit(req *Request, size int) (limit int, raise string) {
	const option = "; to raise the limit, set --max-request"
	switch {
	case req == nil:
		return jute.MaxPath + uncounted, ""
	case req.Op == jute.OpReconfig: // the reply contains the new configuration
		return 2 << 20, ""
	case jute.Writes(req.Op): // the reply contains a path and a Stat for each change
		return 4*size + 1<<16, ""
	case req.Op == jute.OpGetData:
		return max(maxData, k.l.cfg.MaxRequest) + uncounted, option
	}
	return max(MaxReply, k.l.cfg.MaxRequest), option
}

func tooLong(n, limit int) Fault {
	return Fault{Text: fmt.Sprintf("the server sent a reply of %d bytes, which exceeds the limit of %d bytes", n, limit)}
}

// discardReply discards a reply of n bytes, and answers its request with r instead.
func (k *Conn) discardReply(n int, xid int32, r Reply) error {
	if _, err := k.r.Discard(n); err != nil {
		return cutShort(err, 1)
	}
	var head jute.Encoder
	head.Int(xid)
	head.Long(r.Zxid)
	head.Int(r.Code)
	k.traceReceived(head.B)
	return k.answered(xid, r)
}
