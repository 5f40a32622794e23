package wire

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// go-zookeeper writes one whole frame per Write, reads with io.ReadFull and counts its xids up
// from 1. So a net.Conn that it gets through zk.WithDialer can carry other requests in the same
// session: they have xids from xidBase on, and their replies are removed from the stream before
// the library reads it. The library maintains the connection, the pings and the session. All of
// zksh's requests go this way, because only this package knows whether a request was sent, and in
// which session.
const xidBase = 0x40000000

// A socket is a Conn for the library, which reads from it, writes its own frames, and closes it.
type socket struct {
	net.Conn
	k *Conn
}

// SetReadDeadline keeps the dialer's deadline during the handshake, because the library's is many
// times the session timeout.
func (s socket) SetReadDeadline(t time.Time) error {
	if !s.k.live {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: each write sets a deadline of its own, and the library's would
// abort writes of other goroutines.
func (s socket) SetWriteDeadline(time.Time) error { return nil }

// Write sends one frame of the library.
func (s socket) Write(p []byte) (int, error) {
	k := s.k
	k.wmu.Lock()
	defer k.wmu.Unlock()
	q := p
	if !k.greeted {
		k.greeted = true
		if !k.Asked.IsZero() { // attach has sent the connect request
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

// expect records a request of the library.
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

// Read returns the frames for the library, and handles ours.
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

// Close closes the Conn.
func (s socket) Close() error { return s.k.Close() }

// expected records the answer to a request of the library, and reports whether there was one.
func (k *Conn) expected(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer delete(k.theirs, xid)
	return k.theirs[xid]
}
