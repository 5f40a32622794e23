package wire

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// go-zookeeper writes one whole frame per Write, reads with io.ReadFull and
// counts its xids up from 1. So a net.Conn handed to it through zk.WithDialer
// can carry requests of its own in the same session: theirs have xids from
// xidBase on, and their replies are taken out of the stream before the library
// sees it. The library keeps the connection, the pings and the session alive;
// every request of zksh goes this way, because only here is it known whether a
// request was sent, and in which session.
const xidBase = 0x40000000

// socket is a Conn as the library sees it. The library owns it: it reads, writes its own
// frames, and closes it.
type socket struct {
	net.Conn
	k *Conn
}

// SetReadDeadline keeps the dialer's own deadline while the handshake lasts; the
// library would wait for many times the session timeout.
func (s socket) SetReadDeadline(t time.Time) error {
	if !s.k.live {
		return nil
	}
	return s.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: each write sets its own, because the library's
// would end other goroutines' writes.
func (s socket) SetWriteDeadline(time.Time) error { return nil }

// Write sends one frame of the library.
func (s socket) Write(p []byte) (int, error) {
	k := s.k
	k.wmu.Lock()
	defer k.wmu.Unlock()
	q := p
	if !k.greeted {
		k.greeted = true
		if !k.Asked.IsZero() { // and has been answered, see attach
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

// expect notes a request of the library.
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

// Read gives the library its frames and keeps ours.
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

// Close is the library's way to give the connection up.
func (s socket) Close() error { return s.k.Close() }

// expected takes note of the answer to a request of the library, if there was one.
func (k *Conn) expected(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer delete(k.theirs, xid)
	return k.theirs[xid]
}
