package wire

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// xidBase is the lowest xid of zksh's own requests, which share the connection with the requests
// of the library go-zookeeper. go-zookeeper gets a net.Conn through zk.WithDialer. It writes one
// whole frame per Write, reads with io.ReadFull, and counts its xids up from 1. So this package
// can send other requests between go-zookeeper's, and remove their replies before go-zookeeper
// reads the stream. go-zookeeper maintains the connection, the pings and the session. zksh sends
// all its requests in this way, because only this package knows whether a request was sent, and
// in which session.
const xidBase = 0x40000000

// A socket is a net.Conn that go-zookeeper uses like a TCP connection. go-zookeeper thereby shares
// a Conn with zksh's own requests.
type socket struct {
	net.Conn
	k *Conn
}

// SetReadDeadline sets go-zookeeper's read deadline. During the handshake it does nothing, so
// that the dialer's deadline stays in force: go-zookeeper's is many times the session timeout.
func (s socket) SetReadDeadline(t time.Time) error {
	if !s.k.live {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing. Conn.write sets a deadline for each write, and go-zookeeper's
// deadline would abort the writes of other goroutines.
func (s socket) SetWriteDeadline(time.Time) error { return nil }

// Write sends the frame p from go-zookeeper. If p is go-zookeeper's connect request, Write sends
// zksh's own connect request instead.
func (s socket) Write(p []byte) (int, error) {
	k := s.k
	k.wmu.Lock()
	defer k.wmu.Unlock()
	q := p
	if !k.greeted {
		k.greeted = true
		if !k.Asked.IsZero() { // attach has already sent the connect request
			return len(p), nil
		}
		k.Asked = time.Now()
		q, k.session = k.l.hello()
	} else if len(p) >= 8 {
		k.expect(int32(binary.BigEndian.Uint32(p[4:])))
	}
	if err := k.write(q); err != nil {
		return 0, err
	}
	return len(p), nil
}

// expect records that go-zookeeper is sending a request or a ping with the given xid.
func (k *Conn) expect(xid int32) {
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

// Read returns the frames that are for go-zookeeper. It handles the replies to zksh's requests
// itself.
func (s socket) Read(p []byte) (int, error) {
	k := s.k
	for len(k.out) == 0 {
		f, err := k.frame()
		if err != nil {
			if !k.live {
				k.l.attemptFailed(k.Server, k.handshakeCause(err))
			}
			k.die(err)
			return 0, err
		}
		k.out = f
	}
	n := copy(p, k.out)
	k.out = k.out[n:]
	return n, nil
}

// Close closes the connection.
func (s socket) Close() error { return s.k.Close() }

// expected reports whether xid belongs to an unanswered request of go-zookeeper. If so, it marks
// the request as answered.
func (k *Conn) expected(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer delete(k.theirs, xid)
	return k.theirs[xid]
}
