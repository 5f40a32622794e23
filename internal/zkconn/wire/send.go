package wire

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/peer"
)

// A Request is one request on its way, or several that go together. It is sent by
// Conn.Send, and ended exactly once, whatever happens.
type Request struct {
	Context context.Context // once it has ended the request is not sent any more
	Op      int32
	Frames  []byte // those to be sent, with room for the xids; nil once sent
	Several int    // number of frames if the answers are Parts of one Reply; 0 for a single request
	Newer   int32  // the opcode newer than 3.4 that it needs; 0 if none. See trial.go
	Held    Held

	// Answered takes an answer in the receiving goroutine, before any later frame is looked
	// at: that to the frame at this place. It may be nil.
	Answered func(at int, r Reply)
	// End takes the Reply. It must not wait, nor call the Link or, with an error, the Conn.
	End func(Reply)

	// The connection's lock guards these.
	size  int       // of the request in bytes, once sent; of several the longest
	sent  time.Time // when it was sent
	first int32     // its xid above xidBase; those of several follow each other
	left  int       // frames without an answer
	parts []Part    // the answers to several; nil of one
}

// A Reply is what came back for a Request: the server's code and the record behind the
// header, or Err when there was none.
type Reply struct {
	Zxid  int64
	Code  int32
	Body  []byte
	Parts []Part // of several

	Err    error // why there is no answer
	Sent   bool  // with Err: the request was sent, so it may have taken effect
	Broken bool  // with Err: the connection has ended, for that reason; else the Context has
	HungUp bool  // the server has hung up over this trial, or has not answered it
	Size   int   // of the request in bytes, if Sent
}

// A Part is what came back for one of several requests.
type Part struct {
	here bool // it has come
	Code int32
	Body []byte
}

// authenticates reports whether a server takes the request of whoever is not authenticated.
func (r *Request) authenticates() bool { return r.Op == jute.OpAuth }

// awaits reports whether an answer is one to this request, and the place of its frame.
func (r *Request) awaits(xid int32) (at int, is bool) {
	at = int((xid - xidBase - r.first) & (xidBase - 1))
	return at, at == 0 && r.parts == nil || at < len(r.parts) && !r.parts[at].here
}

// put takes the answer to the frame at a place. With the last one the request is answered.
func (r *Request) put(at int, answer Reply) {
	r.left--
	if r.parts != nil {
		r.parts[at] = Part{true, answer.Code, answer.Body}
	}
}

// keptFrames is how large a buffer is kept for what is sent next.
const keptFrames = 256 << 10

// writeTimeout is how long a write may take before the connection counts as dead: two
// thirds of the session timeout, as in every client.
func (l *Link) writeTimeout() time.Duration { return l.Status().Patience * 2 / 3 }

// write is called with wmu held.
func (k *Conn) write(p []byte) error {
	if err := k.tcp.SetWriteDeadline(time.Now().Add(k.l.writeTimeout())); err != nil {
		return err
	}
	_, err := k.tcp.Write(p)
	return err
}

// Send queues requests and returns at once. They go out in this order, and after
// all that was queued before.
func (k *Conn) Send(requests ...*Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range requests {
		if r.left = max(1, r.Several); r.Several > 0 {
			r.parts = make([]Part, r.Several)
		}
		if k.dead != nil {
			r.late(k.dead, k.barred && !r.authenticates())
		} else {
			k.queue = append(k.queue, r)
		}
	}
	k.flush()
}

// flush is called with mu held.
func (k *Conn) flush() {
	if !k.writing && !k.frozen && (k.probe || !k.doubt && k.sendable() > 0) {
		k.writing = true
		go k.drain() // ends with the queue; its writes end by their deadline, or with the connection
	}
}

// Withdraw takes a request out of the queue and ends it, if it is still there.
func (k *Conn) Withdraw(r *Request, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.queue, r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		r.End(Reply{Err: cause})
	}
	if r == k.trial { // a server that does not answer it holds nobody else up
		k.trial = nil
	}
	k.flush()
}

// drain writes what is queued, as much at once as there is. When that fails the
// connection is closed, and the reading side ends with it; but where the server has
// hung up, what it said before is still to be read, and tells what became of requests.
func (k *Conn) drain() {
	for {
		k.wmu.Lock()
		frames := k.take()
		if frames == nil {
			k.wmu.Unlock()
			return
		}
		err := k.write(frames)
		k.wmu.Unlock()
		switch {
		case peer.Cut(err):
			return // as if it went on writing, so that nobody else does
		case err != nil:
			k.die(err)
			k.tcp.Close()
		}
	}
}

// take makes frames of the queue; from now on they count as sent. Without
// any it ends the drain. A request whose context has ended is not sent: nobody
// waits for it, and others may have acted on that.
func (k *Conn) take() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frozen || k.doubt && !k.probe {
		k.writing = false
		return nil
	}
	now := time.Now()
	if k.probe {
		k.sending(now)
		k.pings = append(k.pings, now)
		k.watch()
		return k.ping()
	}
	k.queue = slices.DeleteFunc(k.queue, func(r *Request) bool {
		ended := r.Context.Err() != nil
		if ended {
			r.End(Reply{Err: context.Cause(r.Context)})
		}
		return ended
	})
	some := k.sendable()
	alone := some == 1
	var frames []byte
	if !alone && some > 0 {
		frames = slices.Grow(k.frames[:0], sizeOf(k.queue[:some]))
	}
	for _, r := range k.queue[:some] {
		k.noteTrial(r)
		if len(k.pending) == 0 {
			k.unansweredSince = now
		}
		k.sending(now)
		r.sent, r.first = now, k.next
		k.pending = append(k.pending, r)
		for at := 0; at < len(r.Frames); {
			size := int(binary.BigEndian.Uint32(r.Frames[at:]))
			binary.BigEndian.PutUint32(r.Frames[at+4:], uint32(xidBase+k.next))
			k.next = (k.next + 1) & (xidBase - 1)
			r.size = max(r.size, size)
			at += 4 + size
		}
		if alone {
			frames = r.Frames // which are nobody's any more
		} else {
			frames = append(frames, r.Frames...)
		}
		r.Frames = nil
	}
	if k.queue = k.queue[some:]; len(k.queue) == 0 {
		k.queue = nil
	}
	if !alone && cap(frames) <= keptFrames {
		k.frames = frames
	}
	k.watch()
	k.writing = frames != nil
	return frames
}

// sizeOf returns the number of bytes that requests send.
func sizeOf(requests []*Request) (n int) {
	for _, r := range requests {
		n += len(r.Frames)
	}
	return n
}
