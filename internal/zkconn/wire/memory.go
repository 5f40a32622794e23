package wire

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// Limits of the memory for a server's replies, in bytes. ZooKeeper bounds requests but not replies:
// the list of a million children has 44 MB. A larger Config.MaxRequest raises the first two, as
// jute.maxbuffer does for the Java client.
const (
	MaxReply  = 48 << 20  // of one reply
	maxData   = 16 << 20  // of the data of one znode
	MaxMemory = 64 << 20  // of all replies in use
	maxFrame  = 256 << 20 // of a multiRead's reply, which can be skipped
	uncounted = 4 << 10   // replies up to this size are always read
)

// Memory counts the bytes of replies that are in memory.
type Memory struct{ bytes atomic.Int64 }

// Add adds n to the sum; n may be negative.
func (m *Memory) Add(n int64) { m.bytes.Add(n) }

// Bytes returns the sum.
func (m *Memory) Bytes() int64 { return m.bytes.Load() }

// hold counts a reply until it is garbage.
func (m *Memory) hold(f []byte) {
	n := int64(len(f))
	m.bytes.Add(n)
	runtime.AddCleanup(&f[0], func(n int64) { m.bytes.Add(-n) }, n)
}

// hasRoom reports whether n more bytes are within MaxMemory. Only a garbage collection finds out
// which replies are unused. So before it returns false, it runs some collections, and waits a
// little for callers to finish with theirs.
func (m *Memory) hasRoom(n int) bool {
	const collections, moment = 5, 20 // moment is in milliseconds
	for i := range collections * moment {
		if m.bytes.Load()+int64(n) <= MaxMemory {
			return true
		}
		if i%moment == 0 {
			runtime.GC()
		}
		time.Sleep(time.Millisecond) // cleanups run in goroutines of their own
	}
	return false
}

// Held is whether a reply may be skipped for lack of memory.
type Held int

// The kinds of Held.
const (
	HeldIfRoom Held = iota // the reply is read if there is room; otherwise the request is sent again
	HeldInLine             // the same, but the reply is printed after those before it, which makes room
	HeldAlways             // the reply is always read: nothing is sent after the request until then
)

// admit reads the header of a reply of n bytes, and reports whether the caller may read the rest.
// If it returns false without an error, it has skipped the reply and answered the request. An
// error ends the connection.
//
// A reply that exceeds its own limit ends the connection. Only a multiRead is rejected instead, and
// its sender then reads the znodes one by one. A reply for which there is no room beside the
// earlier ones is answered with Throttled, as an overloaded server does: its sender repeats the
// request alone, and requests less at a time.
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
	req, size := k.asking(xid)
	switch limit, raise := k.mostFor(req, size); {
	case req == nil && xid >= xidBase:
		return false, neverAsked(xid)
	case n > limit && req != nil && req.Op == jute.OpMultiRead:
		return false, k.passOver(n, xid, Reply{Zxid: zxid, Code: MarshallingError})
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
	return false, k.passOver(n, xid, Reply{Zxid: zxid, Code: Throttled})
}

// asking returns the request that a reply answers, and the size of the request; nil if zksh sent no
// such request.
func (k *Conn) asking(xid int32) (req *Request, size int) {
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

// mostFor returns the limit for the reply to a request, in bytes, and a hint on how to raise it. A
// nil request stands for an event.
func (k *Conn) mostFor(req *Request, size int) (limit int, raise string) {
	const option = "; to raise the limit, set --max-request"
	switch {
	case req == nil:
		return jute.MaxPath + uncounted, ""
	case req.Op == jute.OpReconfig: // the new configuration
		return 2 << 20, ""
	case jute.Writes(req.Op): // a path and a Stat for each change
		return 4*size + 1<<16, ""
	case req.Op == jute.OpGetData:
		return max(maxData, k.l.cfg.MaxRequest) + uncounted, option
	}
	return max(MaxReply, k.l.cfg.MaxRequest), option
}

func tooLong(n, limit int) Fault {
	return Fault{Text: fmt.Sprintf("the server sent a reply of %d bytes, which exceeds the limit of %d bytes", n, limit)}
}

// passOver discards a reply, and answers its request with r.
func (k *Conn) passOver(n int, xid int32, r Reply) error {
	if _, err := k.r.Discard(n); err != nil {
		return cutShort(err, 1)
	}
	return k.answered(xid, r)
}
