package demo

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// A wireCounter counts the frames and bytes on all connections of the contenders.
type wireCounter struct {
	// gate is locked for reading while a frame is written, so that freeze can stop all writes by
	// locking it for writing.
	gate sync.RWMutex

	mu    sync.Mutex
	total traffic
	open  int // number of frames that the servers have not answered yet
}

// traffic contains numbers of frames and bytes, counted over some period.
type traffic struct {
	sent, received int // all frames in each direction, including pings
	requests       int // frames sent, except pings and connect requests
	// notifications counts the watch events received, except those about znodes that the same
	// contender deleted.
	notifications int
	refused       int // write requests that the server rejected
	bytes         int // bytes sent and received
	// unanswered counts the sent frames that had no reply when the connection was closed. The
	// server may or may not have read them.
	unanswered int
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

// freeze blocks all contenders from sending frames, waits until the servers have answered all
// requests, and calls look. It returns the traffic up to that moment.
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

// A countingConn is a connection to a server that counts the frames in both directions.
type countingConn struct {
	net.Conn
	w       *wireCounter
	out, in framer

	// The fields below are guarded by w.mu.
	greeted bool
	open    int             // number of frames that the server has not answered yet
	writes  map[int32]bool  // xids of write requests that are in flight
	deleted map[string]bool // paths of znodes that this contender has deleted
}

func (w *wireCounter) wrap(c net.Conn) *countingConn {
	return &countingConn{Conn: c, w: w, writes: map[int32]bool{}, deleted: map[string]bool{}}
}

// Write implements net.Conn. It counts frames before it sends them, so that a reply is never
// counted before its request.
func (t *countingConn) Write(p []byte) (int, error) {
	t.w.gate.RLock()
	defer t.w.gate.RUnlock()
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

// Close implements net.Conn. It counts the requests that will now remain unanswered.
func (t *countingConn) Close() error {
	t.w.mu.Lock()
	t.w.open -= t.open
	t.w.total.unanswered += t.open
	t.open = 0
	t.w.mu.Unlock()
	return t.Conn.Close()
}

// countSent counts a frame sent to the server. head contains the beginning of the frame: xid and
// opcode, except in the first frame, which is the connect request.
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

// countReceived counts a frame received from the server. head contains the beginning of the
// frame: xid, zxid and error code.
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

// A framer finds the frames in a stream of bytes that arrives in arbitrary pieces.
type framer struct {
	head []byte // length and first bytes of the current frame
	size int    // size of the current frame, without its length field
	left int    // number of bytes of the current frame that have not arrived yet
}

const (
	lengthSize = 4
	headSize   = 256 // maximum number of bytes in head after the length field
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
