package wire

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/peer"
)

// A Request is one request to the server, or several that are sent together. Conn.Send sends it.
// End is called exactly once, whether or not an answer arrives.
type Request struct {
	Context context.Context // once it has ended, the request is no longer sent
	Op      int32           // the opcode
	Frames  []byte          // the encoded frames, with space for the xids; nil once sent
	Several int             // number of requests that are sent together; 0 for a single request
	Newer   int32           // opcode of this request that is newer than ZooKeeper 3.4 (see trial.go); 0 if there is none
	Held    Held

	// Answered is called for each answer r. index is the position of the answered frame in
	// Frames. Answered runs in the receiving goroutine, before any later frame is read. It may
	// be nil.
	Answered func(index int, r Reply)
	// End is called with the final Reply. It must not block or call the Link. If the Reply
	// has an error, End must not call the Conn either.
	End func(Reply)

	// The following fields are guarded by Conn.mu.
	size  int       // size in bytes, set when sent; for several requests, the size of the longest
	sent  time.Time // send time
	first int32     // the xid minus xidBase; several requests have consecutive xids
	left  int       // number of frames without an answer
	parts []Part    // the answers to several requests; nil for a single request
}

// A Reply is the answer to a Request: the server's error code and the body after the header. If
// there is no answer, Err says why.
type Reply struct {
	Zxid  int64
	Code  int32
	Body  []byte
	Parts []Part // the answers, if the Request is several requests

	Err    error // reason why there is no answer; nil if there is one
	Sent   bool  // whether the request was sent, and so may have taken effect; only if Err is set
	Broken bool  // whether the connection has ended, rather than Request.Context; only if Err is set
	HungUp bool  // whether the request is a trial that the server did not answer (see trial.go)
	Size   int   // size of the request in bytes, if Sent is true
}

// A Part is the answer to one of several requests that were sent together.
type Part struct {
	here bool // whether the answer has arrived
	Code int32
	Body []byte
}

// authenticates reports whether the request sends a credential. A server that demands credentials
// accepts only such requests before authentication.
func (r *Request) authenticates() bool { return r.Op == jute.OpAuth }

// awaits reports whether the reply with this xid is for r. If so, index is the index of the
// answered frame in r.
func (r *Request) awaits(xid int32) (index int, is bool) {
	index = int((xid - xidBase - r.first) & (xidBase - 1))
	return index, index == 0 && r.parts == nil || index < len(r.parts) && !r.parts[index].here
}

// put records the answer to a frame of r. index is the index of that frame.
func (r *Request) put(index int, answer Reply) {
	r.left--
	if r.parts != nil {
		r.parts[index] = Part{true, answer.Code, answer.Body}
	}
}

// keptFrames is the largest send buffer that a Conn keeps for reuse, in bytes.
const keptFrames = 256 << 10

// writeTimeout returns how long a write may take before the connection counts as dead: two thirds
// of the session timeout, as in other clients.
func (l *Link) writeTimeout() time.Duration { return l.Status().Patience * 2 / 3 }

// write writes p to the TCP connection. It fails if that takes longer than writeTimeout. The caller
// must hold wmu.
func (k *Conn) write(p []byte) error {
	if err := k.tcp.SetWriteDeadline(time.Now().Add(k.l.writeTimeout())); err != nil {
		return err
	}
	k.traceSent(p)
	_, err := k.tcp.Write(p)
	return err
}

// Send queues requests and returns at once. They are sent in this order, after all requests that
// were queued before.
func (k *Conn) Send(requests ...*Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range requests {
		if r.left = max(1, r.Several); r.Several > 0 {
			r.parts = make([]Part, r.Several)
		}
		if k.dead != nil {
			r.failUnsent(k.dead, k.barred && !r.authenticates())
		} else {
			k.queue = append(k.queue, r)
		}
	}
	k.flush()
}

// flush starts a goroutine that drains the queue, if a request or a probe can be sent now. The
// caller must hold mu.
func (k *Conn) flush() {
	if !k.writing && !k.frozen && (k.probe || !k.doubt && k.sendable() > 0) {
		k.writing = true
		go k.drain() // ends when the queue is empty; each write ends at its deadline, or with the connection
	}
}

// Withdraw removes the request r from the queue, and ends it with the error cause. It does nothing
// if r has already been sent.
func (k *Conn) Withdraw(r *Request, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.queue, r); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		r.End(Reply{Err: cause})
	}
	if r == k.trial { // otherwise, a server that does not answer the trial would block all other requests
		k.trial = nil
	}
	k.flush()
}

// drain sends the queued requests until the queue is empty. Each write contains all requests that
// can be sent at that time. If a write fails because the server has closed the connection, drain
// just returns, because earlier answers can still be read. After any other error, drain closes the
// connection, which also ends the reading.
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
			return // writing remains true, so that no other goroutine writes
		case err != nil:
			k.die(err)
			k.tcp.Close()
		}
	}
}

// take returns the frames of the queued requests that can be sent now, and counts the requests as
// sent. It returns nil if there are none, which ends drain. A request whose context has ended fails
// instead. No goroutine waits for its answer, and callers may rely on the fact that it is not sent.
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
		return k.probeFrame()
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
			frames = r.Frames // no other code uses r.Frames any more
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

// sizeOf returns the total size of the requests' frames, in bytes.
func sizeOf(requests []*Request) (n int) {
	for _, r := range requests {
		n += len(r.Frames)
	}
	return n
}
