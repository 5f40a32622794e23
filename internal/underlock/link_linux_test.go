package underlock

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A link forwards the data of one zksh to its server. It knows when another client can hold the
// lock of that zksh, at the earliest.
type link struct {
	t       *testing.T
	target  string
	server  net.Listener
	running sync.WaitGroup

	mu       sync.Mutex
	held     bool          // whether the link forwards nothing
	conns    []net.Conn    // all connections so far
	sent     time.Duration // when the server got the last request, at the earliest; on the clock of bootTime
	released time.Duration // when the server got the first request that releases the lock; 0 if it got none
	renewals []renewal
	pending  map[uint32][]time.Duration // when requests were sent that have not been answered, by their xid
}

// A renewal is a request that has been answered. Each one renews the session.
type renewal struct{ sent, answered time.Duration }

// Opcodes of requests that release a lock.
const (
	opDelete = 2
	opMulti  = 14
	opClose  = -11
)

// maxFrame is the maximum length of a frame. A four-letter command, read as a length, is larger.
const maxFrame = 1 << 20

// newLink starts a link, which ends with the test.
func newLink(t *testing.T, target string) *link {
	t.Helper()
	l := &link{t: t, target: target, pending: map[uint32][]time.Duration{}}
	var err error
	l.server, err = net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	l.running.Go(l.accept) // ends when close closes the listener
	t.Cleanup(l.close)
	return l
}

func (l *link) addr() string { return l.server.Addr().String() }

// close closes all connections and waits for the goroutines of the link.
func (l *link) close() {
	zktest.Check(l.t, l.server.Close())
	l.mu.Lock()
	for _, conn := range l.conns {
		_ = conn.Close() // closed before, if the peer has ended
	}
	l.mu.Unlock()
	l.running.Wait()
}

// hold makes the link forward nothing more, or forward again. It drops what arrived meanwhile.
func (l *link) hold(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = on
}

// free returns the earliest time at which another client can hold the lock, if the server gets no
// more requests than it has got so far.
func (l *link) free(timeout time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released > 0 {
		return l.released
	}
	return l.sent + timeout
}

// lastRenewal returns when the last request was sent whose answer had been forwarded before at.
func (l *link) lastRenewal(at time.Duration) (sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.renewals {
		if r.answered < at {
			sent = max(sent, r.sent)
		}
	}
	return sent
}

func (l *link) accept() {
	for {
		client, err := l.server.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close() // the server has ended with the test
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, client, server)
		l.mu.Unlock()
		// These goroutines end when either connection is closed.
		l.running.Go(func() { l.forward(client, server, l.request) })
		l.running.Go(func() { l.forward(server, client, l.answer) })
	}
}

// forward copies frames. It calls seen before it forwards a frame.
func (l *link) forward(from, to net.Conn, seen func(frame []byte, first bool)) {
	defer to.Close()
	defer from.Close()
	in := bufio.NewReader(from)
	for first := true; ; first = false {
		size := make([]byte, 4)
		if _, err := io.ReadFull(in, size); err != nil {
			return
		}
		length := binary.BigEndian.Uint32(size)
		if length > maxFrame { // a four-letter command and its answer
			if _, err := to.Write(size); err == nil {
				_, _ = io.Copy(to, in) // either end may close the connection
			}
			return
		}
		frame := append(size, make([]byte, length)...)
		if _, err := io.ReadFull(in, frame[4:]); err != nil {
			return
		}
		l.mu.Lock()
		held := l.held
		if !held {
			seen(frame[4:], first)
		}
		l.mu.Unlock()
		if held {
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// request records a request. The caller must hold l.mu.
func (l *link) request(frame []byte, first bool) {
	l.sent = bootTime(l.t)
	if first || len(frame) < 8 {
		return
	}
	xid := binary.BigEndian.Uint32(frame)
	l.pending[xid] = append(l.pending[xid], l.sent)
	switch int32(binary.BigEndian.Uint32(frame[4:])) {
	case opDelete, opMulti, opClose:
		if l.released == 0 {
			l.released = l.sent
		}
	}
}

// answer records an answer. The caller must hold l.mu.
func (l *link) answer(frame []byte, first bool) {
	if first || len(frame) < 4 {
		return
	}
	xid := binary.BigEndian.Uint32(frame)
	if sent := l.pending[xid]; len(sent) > 0 { // else it is an event
		l.pending[xid] = sent[1:]
		l.renewals = append(l.renewals, renewal{sent[0], bootTime(l.t)})
	}
}
