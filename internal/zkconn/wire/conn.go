package wire

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/secure"
)

// A Conn is one TCP connection to one server. Send queues requests, and a goroutine that runs
// while there are any writes them, so that a blocked socket does not block callers.
type Conn struct {
	Server   string         // address of the server
	Agreed   *secure.Agreed // nil without TLS
	Asked    time.Time      // when the connect request was sent
	ReadOnly bool           // the server is in read-only mode

	tcp    net.Conn
	l      *Link
	unbind func() bool     // stops the end of dialing from closing the connection; nil in tests
	alive  context.Context // ends when the connection is dead
	end    context.CancelFunc

	// Owned by the library's reading goroutine; see receive.go.
	r       *bufio.Reader
	room    []byte        // shared buffer for the next short frames
	out     []byte        // the frame the library is reading
	live    bool          // the connect reply was accepted
	timeout time.Duration // negotiated
	crowded bool          // a long reply was skipped for lack of memory, and has not been requested again

	wmu     sync.Mutex // one writer at a time; taken before mu
	greeted bool       // the library has written its connect request
	session int64      // id of the requested session; 0 for a new one
	frames  []byte     // buffer to join several requests, for reuse

	mu              sync.Mutex
	queue           []*Request     // not sent yet
	writing         bool           // a goroutine drains the queue
	next            int32          // next xid of our requests, less xidBase
	pending         []*Request     // sent and not answered, in the order of sending
	theirs          map[int32]bool // the library's unanswered requests
	pings           []time.Time    // send times of unanswered pings
	unansweredSince time.Time      // when the latest answer to our requests came, or the first pending one was sent
	silentSince     time.Time      // when data came last, or the first unanswered request or ping was sent
	alarm           *time.Timer    // runs while a guarded session waits for an answer; may be nil
	frozen          bool           // nothing is sent, because the session is about to move to another server
	doubt           bool           // nothing but the probe is sent, because the server may be about to hang up
	probe           bool           // a ping must be sent; its answer ends the doubt
	probePings      int            // number of answers to pings until that of the probe; 0 if there is no probe
	barred          bool           // the server demands credentials: it did not carry out the unanswered requests
	answers         answers
	version         *Version       // nil until Version has asked
	trial           *Request       // sent alone, and not answered; may be nil
	passed          map[int32]bool // opcodes newer than 3.4 whose trials were answered
	dead            error
}

func newConn(c net.Conn, addr string, l *Link) *Conn {
	k := &Conn{Server: addr, tcp: c, l: l, theirs: map[int32]bool{}, passed: map[int32]bool{}}
	k.r = bufio.NewReaderSize(arrivalReader{k}, 1<<15)
	k.alive, k.end = context.WithCancel(l.ctx)
	return k
}

// Dead returns a channel that is closed when the connection has ended.
func (k *Conn) Dead() <-chan struct{} { return k.alive.Done() }

// release calls unbind.
func (k *Conn) release() {
	if k.unbind != nil {
		k.unbind()
	}
}

// died reports whether the connection has ended. It may be called with the link's lock held.
func (k *Conn) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead != nil
}

// die ends the connection and fails every request with cause. Only the first call counts.
func (k *Conn) die(cause error) {
	k.mu.Lock()
	if k.dead != nil {
		k.mu.Unlock()
		return
	}
	k.dead = cause
	lost, unsent, barred := k.pending, k.queue, k.barred
	hungUp := k.doubt && !barred // the cause was one rejected request, which does not concern the next connection
	trial := k.lostTrial(cause)
	k.pending, k.queue, k.pings = nil, nil, nil
	k.end()
	k.watch()
	k.mu.Unlock()
	if trial != nil && k.l.handler.HungUp(trial.Newer, k.Server, cause) || hungUp {
		k.l.hosts.reset()
	}
	k.l.lost(k)
	for _, r := range lost {
		if barred {
			r.End(Reply{Code: SessionNoAuth})
		} else {
			r.End(Reply{Err: cause, Sent: true, Broken: true, HungUp: r == trial, Size: r.size})
		}
	}
	for _, r := range unsent {
		barred = barred && !r.authenticates() // requests after a credential would not have been rejected
		r.late(cause, barred)
	}
}

// late fails a request that was not sent before its connection ended. On a barred connection the
// server would have rejected it.
func (r *Request) late(cause error, barred bool) {
	if barred {
		r.End(Reply{Code: SessionNoAuth})
	} else {
		r.End(Reply{Err: cause, Broken: true})
	}
}

// Close closes the connection. Unless the Link has ended, it connects again.
func (k *Conn) Close() error {
	k.release()
	k.die(io.ErrClosedPipe)
	return k.tcp.Close()
}
