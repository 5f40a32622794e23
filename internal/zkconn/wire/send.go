package wire

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/peer"
)

// A Request is one request in flight, or several that go together. Conn.Send sends it, and End is
// called exactly once, whatever happens.
type Request struct {
	Context context.Context // the request is not sent once it has ended
	Op      int32
	Frames  []byte // the frames, with room for the xids; nil once sent
	Several int    // number of frames if the answers are Parts of one Reply; 0 for a single request
	Newer   int32  // the opcode, newer than 3.4, that the request needs; 0 if none. See trial.go
	Held    Held

	// Answered is called with the answer to the frame with index at, in the receiving
	// goroutine, before any later frame is read. It may be nil.
	Answered func(at int, r Reply)
	// End is called with the Reply. It must not block, nor call the Link or, with an error, the Conn.
	End func(Reply)

	// Guarded by Conn.mu.
	size  int       // in bytes, once sent; of several requests, the longest
	sent  time.Time // when it was sent
	first int32     // its xid less xidBase; several requests have consecutive xids
	left  int       // frames without an answer
	parts []Part    // the answers to several requests; nil for one
}

// A Reply is the answer to a Request: the server's code and the record after the header, or Err if
// there was none.
type Reply struct {
	Zxid  int64
	Code  int32
	Body  []byte
	Parts []Part // the answers to several requests

	Err    error // why there is no answer
	Sent   bool  // with Err: the request was sent, so it may have taken effect
	Broken bool  // with Err: the connection has ended for that reason; otherwise the Context has
	HungUp bool  // the server has hung up over this trial, or has not answered it
	Size   int   // of the request in bytes, if Sent
}

// A Part is the answer to one of several requests.
type Part struct {
	here bool // the answer has come
	Code int32
	Body []byte
}

// authenticates reports whether a server accepts the request before authentication.
func (r *Request) authenticates() bool { return r.Op == jute.OpAuth }

// awaits reports whether the answer with this xid is for the request, and the index of its frame.
func (r *Request) awaits(xid int32) (at int, is bool) {
	at = int((xid - xidBase - r.first) & (xidBase - 1))
	return at, at == 0 && r.parts == nil || at < len(r.parts) && !r.parts[at].here
}

// put records the answer to the frame with index at.
func (r *Request) put(at int, answer Reply) {
	r.left--
	if r.parts != nil {
		r.parts[at] = Part{true, answer.Code, answer.Body}
	}
}

// keptFrames is the size of the largest buffer that is kept for reuse, in bytes.
const keptFrames = 256 << 10

// writeTimeout returns how long a write may take before the connection counts as dead: two thirds of
// the session timeout, as in other clients.
func (l *Link) writeTimeout() time.Duration { return l.Status().Patience * 2 / 3 }

// write is called with wmu held.
func (k *Conn) write(p []byte) error {
	if err := k.tcp.SetWriteDeadline(time.Now().Add(k.l.writeTimeout())); err != nil {
		return err
	}
	_, err := k.tcp.Write(p)
	return err
}

// Send queues requests and returns at once. They are sent in this order, after all that were queued
// before.
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

// flush starts a goroutine that drains the queue, if there is something to send. Called with mu held.
func (k *Conn) flush() {
	if !k.writing && !k.frozen && (k.probe || !k.doubt && k.sendable() > 0) {
		k.writing = true
		go k.drain() // ends when the queue is empty; writes end by their deadline, or with the connection
	}
}

// Withdraw removes a request from the queue and ends it with cause, if it has not been sent.
func (k *Conn) Withdraw(r *Request, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.queue, r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		r.End(Reply{Err: cause})
	}
	if r == k.trial { // so that a server that does not answer it does not block other requests
		k.trial = nil
	}
	k.flush()
}

// drain writes the queued requests, all at once. If a write fails, it closes the connection, which
// ends the reading side, too. If the server has hung up, it leaves the connection open, because
// answers that came before can still be read.
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
			return // with writing still set, so that no other goroutine writes
		case err != nil:
			k.die(err)
			k.tcp.Close()
		}
	}
}

// take returns the frames of the queued requests, which count as sent from now on. It returns nil if
// there are none, which ends drain. It does not send requests whose context has ended: nobody waits
// for them, and callers may rely on that.
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
			frames = r.Frames // not used by anything else any more
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

// sizeOf returns the size of the frames of requests, in bytes.
func sizeOf(requests []*Request) (n int) {
	for _, r := range requests {
		n += len(r.Frames)
	}
	return n
}
