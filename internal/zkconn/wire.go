package zkconn

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/secure"
)

// go-zookeeper writes one whole frame per Write, reads with io.ReadFull and
// counts its xids up from 1. So a net.Conn handed to it through zk.WithDialer
// can carry requests of its own in the same session: theirs have xids from
// xidBase on, and their replies are taken out of the stream before the library
// sees it. The library keeps the connection, the pings and the session alive;
// every request of zksh goes this way, because only here is it known whether a
// request was sent, and in which session.
const xidBase = 0x40000000

// keptFrames is how large a buffer is kept for what is sent next.
const keptFrames = 256 << 10

// frameConn is one TCP connection to one server. The library owns it: it reads,
// writes its own frames, and closes it. Requests of ours are queued by send and
// written by a goroutine that lives while there are any, so that a socket which
// takes nothing holds nobody up.
type frameConn struct {
	net.Conn
	l      *link
	addr   string
	agreed *secure.Agreed  // nil without TLS
	unbind func() bool     // takes back that the end of dialing closes the connection; nil in tests
	alive  context.Context // ends when the connection is dead
	end    context.CancelFunc

	// These belong to the library's reading goroutine; see receive.go.
	r       *bufio.Reader
	room    []byte        // for the next short frames
	out     []byte        // the frame the library is reading
	live    bool          // the connect reply was good
	timeout time.Duration // negotiated
	crowded bool          // a long reply was passed over, and has not been asked for again

	wmu     sync.Mutex // one writer at a time; taken before mu
	greeted bool       // the library has written its connect request
	asked   time.Time  // when the connect request was sent
	session int64      // the session it asked for; 0: a new one
	frames  []byte     // what several calls were put together in, for the next ones

	mu      sync.Mutex
	queue   []*call        // not sent yet
	writing bool           // a goroutine is at the queue
	next    int32          // of our xids
	pending []*call        // sent and not answered, in the order in which that was done
	theirs  map[int32]bool // the library's unanswered requests
	pings   []time.Time    // send times of unanswered pings
	heard   time.Time      // when the latest answer to one of ours came, or the first of those pending was sent
	still   time.Time      // when anything came last, or the first of what is unanswered was sent
	alarm   *time.Timer    // runs while a guarded session waits for an answer; may be nil
	frozen  bool           // nothing is taken out of the queue: the session is about to move
	doubt   bool           // nor while the server may be about to hang up
	probe   bool           // a ping is to be sent that tells
	until   int            // so many pings' answers from now on; 0: none will
	barred  bool           // the server wants credentials: what is unanswered was not carried out
	answers answers
	known   bool           // whether the server stands alone
	alone   bool           // it does
	version *version       // nil until somebody has asked
	trial   *call          // sent alone, and not answered; may be nil
	passed  map[int32]bool // the requests newer than 3.4 that were answered
	dead    error
}

func newFrameConn(c net.Conn, addr string, l *link) *frameConn {
	k := &frameConn{Conn: c, l: l, addr: addr, theirs: map[int32]bool{}, passed: map[int32]bool{}}
	k.r = bufio.NewReaderSize(ear{k}, 1<<15)
	k.alive, k.end = context.WithCancel(l.ctx)
	return k
}

// SetReadDeadline keeps the dialer's own deadline while the handshake lasts; the
// library would wait for many times the session timeout.
func (k *frameConn) SetReadDeadline(t time.Time) error {
	if !k.live {
		return nil
	}
	return k.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: each write sets its own, because the library's
// would end other goroutines' writes.
func (k *frameConn) SetWriteDeadline(time.Time) error { return nil }

// Write sends one frame of the library.
func (k *frameConn) Write(p []byte) (int, error) {
	k.wmu.Lock()
	defer k.wmu.Unlock()
	q := p
	if !k.greeted {
		k.greeted = true
		if !k.asked.IsZero() { // and has been answered, see attach
			return len(p), nil
		}
		k.asked = time.Now()
		q, k.session = k.l.hello()
	} else if len(p) >= 8 {
		k.expect(int32(binary.BigEndian.Uint32(p[4:])))
	}
	if err := k.write(q); err != nil {
		return 0, err
	}
	return len(p), nil
}

// expect notes a request of the library.
func (k *frameConn) expect(xid int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if xid == jute.XidPing {
		now := time.Now()
		k.sending(now)
		k.pings = append(k.pings, now)
		k.watch()
	} else {
		k.theirs[xid] = true
	}
}

// write is called with wmu held.
func (k *frameConn) write(p []byte) error {
	if err := k.Conn.SetWriteDeadline(time.Now().Add(k.l.patience())); err != nil {
		return err
	}
	_, err := k.Conn.Write(p)
	return err
}

// send queues calls and returns at once. They go out in this order, and behind
// all that was queued before. What the Config has nobody ask is answered at once.
func (k *frameConn) send(calls ...*call) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range calls {
		if c.k == nil { // it may have it, and be waited for, already
			c.k = k
		}
		if err := k.l.cfg.refuses(c.op); err != nil {
			c.end(reply{err: err, fate: notSent})
		} else if err := k.l.cfg.tooLarge(c); err != nil {
			c.end(reply{err: err, fate: rejected, refusal: true})
		} else if k.dead != nil {
			c.late(k.dead, k.barred && c.op != jute.OpAuth)
		} else {
			k.queue = append(k.queue, c)
		}
	}
	k.flush()
}

// flush is called with mu held.
func (k *frameConn) flush() {
	if !k.writing && !k.frozen && (k.probe || !k.doubt && k.sendable() > 0) {
		k.writing = true
		go k.drain() // ends with the queue; its writes end by their deadline, or with the connection
	}
}

// withdraw takes a call out of the queue, if it is still there.
func (k *frameConn) withdraw(c *call, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.Index(k.queue, c); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		c.unsent(cause)
	}
	if c == k.trial { // a server that does not answer it holds nobody else up
		k.trial = nil
	}
	k.flush()
}

// drain writes what is queued, as much at once as there is. When that fails the
// connection is closed, and the reading side ends with it; but where the server has
// hung up, what it said before is still to be read, and tells what became of requests.
func (k *frameConn) drain() {
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
			k.Conn.Close()
		}
	}
}

// take makes frames of the queue; from now on its calls count as sent. Without
// any it ends the drain. A call whose context has ended is not sent: nobody
// waits for it, and others may have acted on that.
func (k *frameConn) take() []byte {
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
	k.queue = slices.DeleteFunc(k.queue, func(c *call) bool {
		ended := c.ctx.Err() != nil
		if ended {
			c.unsent(context.Cause(c.ctx))
		}
		return ended
	})
	some := k.sendable()
	alone := some == 1
	var frames []byte
	if !alone && some > 0 {
		frames = slices.Grow(k.frames[:0], sizeOf(k.queue[:some]))
	}
	for _, c := range k.queue[:some] {
		k.begins(c)
		if len(k.pending) == 0 {
			k.heard = now
		}
		k.sending(now)
		c.sent, c.first = now, k.next
		k.pending = append(k.pending, c)
		for at := 0; at < len(c.frames); {
			size := int(binary.BigEndian.Uint32(c.frames[at:]))
			binary.BigEndian.PutUint32(c.frames[at+4:], uint32(xidBase+k.next))
			k.next = (k.next + 1) & (xidBase - 1)
			c.size = max(c.size, size)
			at += 4 + size
		}
		if alone {
			frames = c.frames // which are nobody's any more
		} else {
			frames = append(frames, c.frames...)
		}
		c.frames = nil
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

// sizeOf returns the number of bytes that calls send.
func sizeOf(calls []*call) (n int) {
	for _, c := range calls {
		n += len(c.frames)
	}
	return n
}

// release unbinds the connection from the end of dialing.
func (k *frameConn) release() {
	if k.unbind != nil {
		k.unbind()
	}
}

// died tells whether the connection has ended. It may be asked under the link's lock.
func (k *frameConn) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead != nil
}

// die ends every call with cause, once.
func (k *frameConn) die(cause error) {
	k.mu.Lock()
	if k.dead != nil {
		k.mu.Unlock()
		return
	}
	k.dead = cause
	lost, unsent, barred := k.pending, k.queue, k.barred
	hungUp := k.doubt && !barred // over one request, which the next connection has nothing to do with
	over := k.lostTrial(cause)
	k.pending, k.queue, k.pings = nil, nil, nil
	k.end()
	k.watch()
	k.mu.Unlock()
	if hungUp {
		k.l.hosts.reset()
	}
	if over != nil {
		k.l.hungUp(over)
	}
	k.l.lost(k)
	for _, c := range lost {
		cause := cause
		if over != nil { // then this is the only one
			cause = over
		}
		if barred {
			c.end(reply{code: sessionNoAuth})
			continue
		}
		c.end(reply{err: &LostError{Path: c.path, Write: c.write, Size: c.size, Cause: cause}, fate: unknown, cut: true})
	}
	for _, c := range unsent {
		barred = barred && c.op != jute.OpAuth // nor would what stands behind a credential be refused
		c.late(cause, barred)
	}
}

// late answers a call that was not sent before its connection ended. On a barred one it
// would have been refused, as those before it were.
func (c *call) late(cause error, barred bool) {
	if barred {
		c.end(reply{code: sessionNoAuth})
	} else {
		c.unsent(broken(cause))
	}
}

// Close is the library's way to give the connection up.
func (k *frameConn) Close() error {
	k.release()
	k.die(io.ErrClosedPipe)
	return k.Conn.Close()
}
