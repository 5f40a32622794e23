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

// Conn is one TCP connection to one server. Requests are queued by Send and
// written by a goroutine that lives while there are any, so that a socket which
// takes nothing holds nobody up.
type Conn struct {
	Server   string         // its address
	Agreed   *secure.Agreed // nil without TLS
	Asked    time.Time      // when the session was asked for
	ReadOnly bool           // the server takes no writes

	tcp    net.Conn
	l      *Link
	unbind func() bool     // undoes that the end of dialing closes the connection; nil in tests
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
	session int64      // the session it asked for; 0: a new one
	frames  []byte     // what several requests were put together in, for the next ones

	mu              sync.Mutex
	queue           []*Request     // not sent yet
	writing         bool           // a goroutine is at the queue
	next            int32          // of our xids
	pending         []*Request     // sent and not answered, in the order in which that was done
	theirs          map[int32]bool // the library's unanswered requests
	pings           []time.Time    // send times of unanswered pings
	unansweredSince time.Time      // when the latest answer to one of ours came, or the first of those pending was sent
	silentSince     time.Time      // when anything came last, or the first of what is unanswered was sent
	alarm           *time.Timer    // runs while a guarded session waits for an answer; may be nil
	frozen          bool           // nothing is taken out of the queue: the session is about to move
	doubt           bool           // nor while the server may be about to hang up
	probe           bool           // a ping is to be sent, whose answer ends the doubt
	probePings      int            // so many pings' answers from now on; 0: none will
	barred          bool           // the server wants credentials: what is unanswered was not carried out
	answers         answers
	version         *Version       // nil until somebody has asked
	trial           *Request       // sent alone, and not answered; may be nil
	passed          map[int32]bool // the requests newer than 3.4 that were answered
	dead            error
}

func newConn(c net.Conn, addr string, l *Link) *Conn {
	k := &Conn{Server: addr, tcp: c, l: l, theirs: map[int32]bool{}, passed: map[int32]bool{}}
	k.r = bufio.NewReaderSize(arrivalReader{k}, 1<<15)
	k.alive, k.end = context.WithCancel(l.ctx)
	return k
}

// Dead is closed when the connection has ended.
func (k *Conn) Dead() <-chan struct{} { return k.alive.Done() }

// release unbinds the connection from the end of dialing.
func (k *Conn) release() {
	if k.unbind != nil {
		k.unbind()
	}
}

// died reports whether the connection has ended. It may be asked under the link's lock.
func (k *Conn) died() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead != nil
}

// die ends every request with cause, once.
func (k *Conn) die(cause error) {
	k.mu.Lock()
	if k.dead != nil {
		k.mu.Unlock()
		return
	}
	k.dead = cause
	lost, unsent, barred := k.pending, k.queue, k.barred
	hungUp := k.doubt && !barred // over one request, which the next connection has nothing to do with
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
		barred = barred && !r.authenticates() // nor would what stands behind a credential be refused
		r.late(cause, barred)
	}
}

// late ends a request that was not sent before its connection ended. On a barred one it
// would have been refused, as those before it were.
func (r *Request) late(cause error, barred bool) {
	if barred {
		r.End(Reply{Code: SessionNoAuth})
	} else {
		r.End(Reply{Err: cause, Broken: true})
	}
}

// Close gives the connection up. The Link looks for the next one unless it has ended.
func (k *Conn) Close() error {
	k.release()
	k.die(io.ErrClosedPipe)
	return k.tcp.Close()
}
