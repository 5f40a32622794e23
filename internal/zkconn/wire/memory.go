package wire

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// Limits of what a server's replies may take in memory, in bytes. ZooKeeper bounds what a
// client sends, but not what it gets: a znode with a million children has a list of 44 MB.
// A larger Config.MaxRequest raises the first two, as jute.maxbuffer does for Java's client.
const (
	MaxReply  = 48 << 20  // of one reply
	maxData   = 16 << 20  // of the data of one znode
	MaxMemory = 64 << 20  // of several replies, until those who asked have done with them
	maxFrame  = 256 << 20 // of a multiRead's reply, which may be passed over
	uncounted = 4 << 10   // replies of up to so much always have room
)

// Memory counts the bytes of replies that are in memory.
type Memory struct{ bytes atomic.Int64 }

// Add counts more bytes, or less.
func (m *Memory) Add(n int64) { m.bytes.Add(n) }

// Bytes returns the sum.
func (m *Memory) Bytes() int64 { return m.bytes.Load() }

// hold counts a reply for as long as anything refers to it.
func (m *Memory) hold(f []byte) {
	n := int64(len(f))
	m.bytes.Add(n)
	runtime.AddCleanup(&f[0], func(n int64) { m.bytes.Add(-n) }, n)
}

// room reports whether there is room for so many bytes. What nobody refers to any more is
// only known after a collection of garbage. So before it says no it makes some, and gives
// those who asked a moment to be done.
func (m *Memory) hasRoom(n int) bool {
	const collections, moment = 5, 20 // moments are in milliseconds
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

// Held says which replies must have room in memory beside others.
type Held int

// The kinds of Held.
const (
	HeldIfRoom Held = iota // the reply is read if there is room, and otherwise asked for again
	HeldInLine             // the same; it is printed after those before it, which makes room
	HeldAlways             // the reply is read: nothing is sent after the request before that
)

// admit looks at the header of a reply of n bytes, and reports whether it is to be read.
// One that is not has been passed over, and its request has an answer, or the error is
// that of the connection.
//
// A reply that is too large for itself ends the connection, but for a multiRead's, which
// asks for many replies at once: its sender asks for each. One for which there is no room
// beside those before it is answered with Throttled, as from a server with too much to
// do: its sender asks for it again alone, and for less at a time.
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
	k.crowded = true // the lines behind this one are printed after it: their answers would wait
	return false, k.passOver(n, xid, Reply{Zxid: zxid, Code: Throttled})
}

// asking returns the request that a reply answers, and its size; nil if this client sent
// no such request.
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

// mostFor returns the largest size of the reply to a request, in bytes, and a hint on what
// raises it. A nil request stands for an event.
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

// passOver reads a reply and keeps nothing of it. Its request is answered with r.
func (k *Conn) passOver(n int, xid int32, r Reply) error {
	if _, err := k.r.Discard(n); err != nil {
		return cutShort(err, 1)
	}
	return k.answered(xid, r)
}
