package demo

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/zksh/zksh/internal/jute"
)

// A wireCounter counts the traffic on all connections of the contenders.
type wireCounter struct {
	mu    sync.Mutex
	total traffic
}

// traffic contains numbers of frames, counted over some period.
type traffic struct {
	requests int // frames sent, except pings and connect requests
	// notifications counts the watch events received, except those about znodes that the same
	// contender deleted.
	notifications int
	refused       int // write requests that the server rejected
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.requests - before.requests, t.notifications - before.notifications, t.refused - before.refused}
}

func (w *wireCounter) read() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// A countingConn is a connection to a server that counts the frames in both directions.
type countingConn struct {
	net.Conn
	w       *wireCounter
	out, in framer

	// The fields below are guarded by w.mu.
	greeted bool            // whether the connect request has been sent
	writes  map[int32]bool  // xids of write requests that are in flight
	deleted map[string]bool // paths of znodes that this contender has deleted
}

func (w *wireCounter) wrap(c net.Conn) *countingConn {
	return &countingConn{Conn: c, w: w, writes: map[int32]bool{}, deleted: map[string]bool{}}
}

// Write implements net.Conn. It counts frames before it sends them, so that a reply is never
// counted before its request.
func (t *countingConn) Write(p []byte) (int, error) {
	t.w.mu.Lock()
	t.out.feed(p, t.countSent)
	t.w.mu.Unlock()
	return t.Conn.Write(p)
}

// Read implements net.Conn. It counts the frames that arrive.
func (t *countingConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.in.feed(p[:n], t.countReceived)
	return n, err
}

// countSent counts a frame sent to the server. head contains the beginning of the frame: xid and
// opcode, except in the first frame, which is the connect request.
func (t *countingConn) countSent(head []byte) {
	if !t.greeted {
		t.greeted = true
		return
	}
	d := jute.NewDecoder(head)
	xid, op := d.Int(), d.Int()
	if xid == jute.XidPing {
		return
	}
	t.w.total.requests++
	if jute.Creates(op) || op == jute.OpDelete || op == jute.OpMulti {
		t.writes[xid] = true
	}
	if op == jute.OpDelete {
		t.deleted[d.String()] = true
	}
}

// countReceived counts a frame received from the server. head contains the beginning of the
// frame: xid, zxid and error code.
func (t *countingConn) countReceived(head []byte) {
	d := jute.NewDecoder(head)
	xid, _, code := d.Int(), d.Long(), d.Int()
	if xid == jute.XidEvent {
		_, _, path := d.Int(), d.Int(), d.String()
		if !t.deleted[path] {
			t.w.total.notifications++
		}
		return
	}
	if t.writes[xid] && code != 0 {
		t.w.total.refused++
	}
	delete(t.writes, xid)
}

// A framer finds the frames in a stream of bytes that arrives in arbitrary pieces.
type framer struct {
	head []byte // length and first bytes of the current frame
	left int    // number of bytes of the current frame that have not arrived yet
}

const (
	lengthSize = 4
	headSize   = 256 // maximum number of bytes in head after the length field
)

// feed takes the next piece of the stream. It calls frame with the beginning of each frame that is
// now complete.
func (f *framer) feed(p []byte, frame func(head []byte)) {
	for len(p) > 0 {
		if need := lengthSize - len(f.head); need > 0 {
			n := min(need, len(p))
			f.head, p = append(f.head, p[:n]...), p[n:]
			if n == need {
				f.left = int(binary.BigEndian.Uint32(f.head))
			}
			continue
		}
		n := min(f.left, len(p))
		f.head = append(f.head, p[:min(n, lengthSize+headSize-len(f.head))]...)
		f.left, p = f.left-n, p[n:]
		if f.left == 0 {
			frame(f.head[lengthSize:])
			f.head = f.head[:0]
		}
	}
}
