package demo

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// wires count what goes over the connections of all contenders, frame by frame.
type wires struct {
	gate sync.RWMutex // held for reading while frames are written; see cut

	mu   sync.Mutex
	now  traffic
	open int // frames that are not answered
}

// traffic is what has gone over the wires, from some moment to another.
type traffic struct {
	sent, came    int // frames, pings and all
	requests      int // frames sent but pings and greetings
	notifications int // but those of a znode that the contender itself has deleted: nobody waits for them
	refused       int // writes that were answered with an error
	bytes         int // both ways
	unheard       int // frames sent that were not answered when their connection was closed: the server may have read them
}

func (t traffic) since(before traffic) traffic {
	return traffic{t.sent - before.sent, t.came - before.came, t.requests - before.requests,
		t.notifications - before.notifications, t.refused - before.refused, t.bytes - before.bytes, t.unheard - before.unheard}
}

func (w *wires) read() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// cut stops the world: nothing is sent, and everything is answered, while look is
// called. The traffic is what was until then.
func (w *wires) cut(ctx context.Context, look func()) (traffic, error) {
	w.gate.Lock()
	defer w.gate.Unlock()
	for w.unanswered() {
		select {
		case <-ctx.Done():
			return traffic{}, context.Cause(ctx)
		case <-time.After(100 * time.Microsecond):
		}
	}
	look()
	return w.read(), nil
}

func (w *wires) unanswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open > 0
}

// tap is one connection to a server.
type tap struct {
	net.Conn
	w       *wires
	out, in framer

	// The wires' lock guards these.
	greeted bool
	open    int             // frames that are not answered
	writes  map[int32]bool  // the xids of those that change something
	deleted map[string]bool // the paths that it has deleted
}

func (w *wires) tap(c net.Conn) *tap {
	return &tap{Conn: c, w: w, writes: map[int32]bool{}, deleted: map[string]bool{}}
}

// Write counts before it writes: an answer never comes before its question.
func (t *tap) Write(p []byte) (int, error) {
	t.w.gate.RLock()
	defer t.w.gate.RUnlock()
	t.w.mu.Lock()
	t.out.feed(p, t.asked)
	t.w.mu.Unlock()
	return t.Conn.Write(p)
}

// Read counts what comes.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.in.feed(p[:n], t.told)
	return n, err
}

// Close also takes back what nobody will answer now.
func (t *tap) Close() error {
	t.w.mu.Lock()
	t.w.open -= t.open
	t.w.now.unheard += t.open
	t.open = 0
	t.w.mu.Unlock()
	return t.Conn.Close()
}

// asked counts a frame to the server: the greeting, then xid and opcode.
func (t *tap) asked(head []byte, size int) {
	t.w.now.sent++
	t.w.now.bytes += size
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
	t.w.now.requests++
	if jute.Creates(op) || op == jute.OpDelete || op == jute.OpMulti {
		t.writes[xid] = true
	}
	if op == jute.OpDelete {
		t.deleted[d.String()] = true
	}
}

// told counts a frame from the server: xid, zxid, error code.
func (t *tap) told(head []byte, size int) {
	t.w.now.came++
	t.w.now.bytes += size
	d := jute.NewDecoder(head)
	xid, _, code := d.Int(), d.Long(), d.Int()
	if xid == jute.XidEvent {
		_, _, path := d.Int(), d.Int(), d.String()
		if !t.deleted[path] {
			t.w.now.notifications++
		}
		return
	}
	if t.open > 0 {
		t.w.open--
		t.open--
	}
	if t.writes[xid] && code != 0 {
		t.w.now.refused++
	}
	delete(t.writes, xid)
}

// framer finds the frames in a stream, however it is cut into pieces.
type framer struct {
	head []byte // of the frame under way: its length, and the beginning of the rest
	size int    // of the rest
	left int    // of which so much is still to come
}

const (
	lengthSize = 4
	headSize   = 256 // what is looked at behind the length
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
