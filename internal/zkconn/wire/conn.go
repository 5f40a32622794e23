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

// A Conn is one TCP connection to one server. Send only queues requests. While the queue is not
// empty, a goroutine writes them to the socket, so that a blocked socket does not block callers.
type Conn struct {
	Server   string           // address of the server
	Agreed   *secure.Agreed   // parameters of the TLS connection; nil without TLS
	Identity *secure.Identity // how Kerberos authenticated the connection; nil without Kerberos
	Asked    time.Time        // send time of the connect request
	ReadOnly bool             // whether the server is in read-only mode

	tcp    net.Conn
	until  time.Time // time limit for connecting, including the handshake
	l      *Link
	unbind func() bool     // cancels the closing of tcp at the end of the Link's context; nil in tests
	alive  context.Context // ends when the connection is dead
	end    context.CancelFunc

	// The following fields are owned by the goroutine in which go-zookeeper reads; see
	// receive.go.
	r       *bufio.Reader
	room    []byte        // unused part of the buffer from which short frames get their memory
	out     []byte        // rest of the frame that go-zookeeper is reading
	live    bool          // whether the connect reply was accepted
	timeout time.Duration // negotiated session timeout
	crowded bool          // whether a long reply was skipped for lack of memory, and no repeated request has been answered since

	wmu     sync.Mutex // held while writing to tcp; must be locked before mu
	greeted bool       // whether go-zookeeper has written its connect request
	session int64      // id of the requested session; 0 for a new one
	frames  []byte     // reusable buffer for sending several requests in one write

	mu              sync.Mutex
	queue           []*Request     // requests that have not been sent yet
	writing         bool           // whether a goroutine is sending the requests in the queue
	next            int32          // xid of zksh's next request, minus xidBase
	pending         []*Request     // requests sent and not yet answered, in the order of sending
	theirs          map[int32]bool // xids of go-zookeeper's unanswered requests
	pings           []time.Time    // send times of unanswered pings
	unansweredSince time.Time      // time of the latest answer to a request of zksh; or send time of the first pending request, if that is later
	silentSince     time.Time      // time when data last arrived; or send time of the first unanswered request or ping, if that is later
	alarm           *time.Timer    // runs while a guarded session waits for an answer; nil until first needed
	frozen          bool           // whether sending is suspended, because the session is about to move to another server
	doubt           bool           // whether only a ping (the probe) may be sent, because the server may be about to close the connection
	probe           bool           // whether a probe must be sent; its answer ends the doubt
	probePings      int            // number of answers to pings that are still to come, up to and including that of the probe; 0 if no probe was sent
	barred          bool           // whether the server demands credentials, and so has not carried out the unanswered requests
	answers         answers
	version         *Version       // version of the server; nil before it is known
	trial           *Request       // unanswered trial (see trial.go), or nil if there is none
	passed          map[int32]bool // opcodes newer than ZooKeeper 3.4 whose trials were answered
	dead            error          // reason why the connection has ended; nil until then
}

func newConn(c net.Conn, addr string, l *Link) *Conn {
	k := &Conn{Server: addr, tcp: c, l: l, theirs: map[int32]bool{}, passed: map[int32]bool{}}
	k.r = bufio.NewReaderSize(arrivalReader{k}, 1<<15)
	k.alive, k.end = context.WithCancel(l.ctx)
	return k
}

// Dead returns a channel that is closed when the connection has ended.
func (k *Conn) Dead() <-chan struct{} { return k.alive.Done() }

// release detaches the TCP connection from the Link's context, so that it stays open when the
// context ends.
func (k *Conn) release() {
	if k.unbind != nil {
		k.unbind()
	}
}

// died reports whether the connection has ended. The caller may hold the Link's lock.
func (k *Conn) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead != nil
}

// die ends the connection and fails all its requests with cause. Only the first call has an
// effect.
func (k *Conn) die(cause error) {
	k.mu.Lock()
	if k.dead != nil {
		k.mu.Unlock()
		return
	}
	k.dead = cause
	lost, unsent, barred := k.pending, k.queue, k.barred
	hungUp := k.doubt && !barred // the connection ended because of a rejected request, so the next connection may work
	trial := k.lostTrial(cause)
	k.pending, k.queue, k.pings = nil, nil, nil
	k.end()
	k.watch()
	k.mu.Unlock()
	if t := k.l.tracer(); t != nil {
		t.Ended(k, cause)
	}
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
		barred = barred && !r.authenticates() // the server would have accepted requests after the credential
		r.failUnsent(cause, barred)
	}
}

// failUnsent fails a request that was not sent before its connection ended. If barred is true, the
// server would have rejected the request for lack of credentials, so the request gets the answer
// SessionNoAuth.
func (r *Request) failUnsent(cause error, barred bool) {
	if barred {
		r.End(Reply{Code: SessionNoAuth})
	} else {
		r.End(Reply{Err: cause, Broken: true})
	}
}

// Close closes the connection. The Link then connects again, unless it has ended.
func (k *Conn) Close() error {
	k.release()
	k.die(io.ErrClosedPipe)
	return k.tcp.Close()
}

// answers is a sample of the requests on one connection, including pings, whose answers have
// arrived. For each, it contains the time when the request was sent and the time when its answer
// came.
type answers []struct{ sent, came time.Time }

// Size of the sample. maxAnswers is the maximum number of answers. thinning determines the minimum
// time between two of them: the session timeout divided by thinning. A full sample therefore covers
// nearly half of the session timeout.
const (
	maxAnswers = 16
	thinning   = 32
)

// add records the newest answer. To limit the size of the sample, it replaces the previous answer
// if that one arrived shortly after the one before it.
func (a *answers) add(sent, came time.Time, timeout time.Duration) {
	old := *a
	switch n := len(old); {
	case n > 1 && old[n-1].came.Sub(old[n-2].came) < timeout/thinning:
		old = old[:n-1]
	case n == maxAnswers:
		old = append(answers{}, old[1:]...)
	}
	*a = append(old, struct{ sent, came time.Time }{sent, came})
}

// AnsweredBy returns two times of the latest recorded request that had been answered before the
// given moment: when the request was sent, and when its answer had arrived at the latest. If there
// is no such request, it returns the send time of the connect request, and the moment itself.
func (k *Conn) AnsweredBy(moment time.Time) (sent, came time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sent, came = k.Asked, moment
	for _, a := range k.answers {
		if !a.came.After(moment) && a.sent.After(sent) {
			sent, came = a.sent, a.came
		}
	}
	return sent, came
}

// The error codes of the protocol (KeeperException.Code) that this package handles.
const (
	OK               = 0
	MarshallingError = -5
	Unimplemented    = -6
	SessionExpired   = -112
	AuthFailed       = -115
	SessionMoved     = -118
	NotReadOnly      = -119
	SessionNoAuth    = -124
	Throttled        = -127
)

// A Fault is the reason why zksh closed a connection: the server violated the protocol, or did
// not answer in time.
type Fault struct {
	Text   string
	Silent bool // whether the server answered pings, but no requests
}

func (f Fault) Error() string { return f.Text }
