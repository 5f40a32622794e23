package demo

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// wireCounter counts the frames and bytes on the connections of all contenders.
type wireCounter struct {
	gate sync.RWMutex // read-locked while frames are written; see freeze

	mu    sync.Mutex
	total traffic
	open  int // frames without an answer so far
}

// traffic contains the numbers of frames and bytes in some period.
type traffic struct {
	sent, received int // all frames, including pings
	requests       int // frames sent, without pings and connect requests
	notifications  int // notifications received, without those of znodes that the contender itself deleted
	refused        int // writes that the server rejected
	bytes          int // bytes sent and received
	unanswered     int // frames sent without a reply before the connection was closed; the server may have read them
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.sent - before.sent, t.received - before.received, t.requests - before.requests,
		t.notifications - before.notifications, t.refused - before.refused, t.bytes - before.bytes, t.unanswered - before.unanswered}
}

func (w *wireCounter) read() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// freeze waits until all requests have been answered, and calls look while no contender can send
// a frame. It returns the traffic until then.
func (w *wireCounter) freeze(ctx context.Context, look func()) (traffic, error) {
	w.gate.Lock()
	defer w.gate.Unlock()
	for w.hasUnanswered() {
		select {
		case <-ctx.Done():
			return traffic{}, context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
		}
	}
	look()
	return w.read(), nil
}

func (w *wireCounter) hasUnanswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open > 0
}

// countingConn is a connection to a server that counts its frames.
type countingConn struct {
	net.Conn
	w       *wireCounter
	out, in framer

	// Guarded by w.mu.
	greeted bool
	open    int             // frames without an answer so far
	writes  map[int32]bool  // xids of in-flight requests that write
	deleted map[string]bool // paths that this connection has deleted
}

func (w *wireCounter) wrap(c net.Conn) *countingConn {
	return &countingConn{Conn: c, w: w, writes: map[int32]bool{}, deleted: map[string]bool{}}
}

// Write implements net.Conn. It counts frames before it writes them, so that no reply is counted
// before its request.
func (t *countingConn) Write(p []byte) (int, error) {
	t.w.gate.RLock()
	defer t.w.gate.RUnlock()
	t.w.mu.Lock()
	t.out.feed(p, t.countSent)
	t.w.mu.Unlock()
	return t.Conn.Write(p)
}

// Read implements net.Conn. It counts the frames that it receives.
func (t *countingConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.in.feed(p[:n], t.countReceived)
	return n, err
}

// Close implements net.Conn. It also counts the requests that will no longer be answered.
func (t *countingConn) Close() error {
	t.w.mu.Lock()
	t.w.open -= t.open
	t.w.total.unanswered += t.open
	t.open = 0
	t.w.mu.Unlock()
	return t.Conn.Close()
}

// countSent counts a frame to the server. head contains its first bytes. The first frame is the
// connect request; all others begin with xid and opcode.
func (t *countingConn) countSent(head []byte, size int) {
	t.w.total.sent++
	t.w.total.bytes += size
	t.w.open++
	t.open++
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

// countReceived counts a frame from the server. head contains its first bytes: xid, zxid and
// error code.
func (t *countingConn) countReceived(head []byte, size int) {
	t.w.total.received++
	t.w.total.bytes += size
	d := jute.NewDecoder(head)
	xid, _, code := d.Int(), d.Long(), d.Int()
	if xid == jute.XidEvent {
		_, _, path := d.Int(), d.Int(), d.String()
		if !t.deleted[path] {
			t.w.total.notifications++
		}
		return
	}
	if t.open > 0 {
		t.w.open--
		t.open--
	}
	if t.writes[xid] && code != 0 {
		t.w.total.refused++
	}
	delete(t.writes, xid)
}

// framer finds the boundaries of frames in a stream that arrives in arbitrary pieces.
type framer struct {
	head []byte // length field and first bytes of the current frame
	size int    // size of the current frame in bytes, without the length field
	left int    // number of bytes of the frame that have not arrived yet
}

const (
	lengthSize = 4
	headSize   = 256 // number of bytes of head after the length field
)

func (f *framer) feed(p []byte, frame func(head []byte, size int)) {
	for len(p) > 0 {
		if need := lengthSize - len(f.head); need > 0 {
			n := min(need, len(p))
			f.head, p = append(f.head, p[:n]...), p[n:]
			if n == need {
				f.size = int(binary.BigEndian.Uint32(f.head))
				f.left = f.size
			}
			continue
		}
		n := min(f.left, len(p))
		f.head = append(f.head, p[:min(n, lengthSize+headSize-len(f.head))]...)
		f.left, p = f.left-n, p[n:]
		if f.left == 0 {
			frame(f.head[lengthSize:], lengthSize+f.size)
			f.head = f.head[:0]
		}
	}
}
