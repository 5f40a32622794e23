package zkconn

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/secure"
)

// maxConnectReply is the longest connect reply, in bytes. It has 41; whoever answers with
// more is no ZooKeeper server.
const maxConnectReply = 1024

// Read gives the library its frames and keeps ours.
func (k *frameConn) Read(p []byte) (int, error) {
	for len(k.out) == 0 {
		f, err := k.frame()
		if err != nil {
			if !k.live {
				k.l.attemptFailed(k.addr, k.handshakeCause(err))
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

// notZooKeeper is the error of a peer that answers in another protocol.
func notZooKeeper(said []byte) error {
	if secure.SpeaksTLS(said) {
		return errors.New("this is a TLS port; add --tls")
	}
	s, _, _ := strings.Cut(strings.ToValidUTF8(string(said), "?"), "\n")
	return fmt.Errorf("the server does not speak the ZooKeeper protocol: it answered %q", strings.TrimRight(s, "\r"))
}

// handshakeCause words why a server gave no answer to the connect request, and what
// might help.
func (k *frameConn) handshakeCause(err error) error {
	const hungUp = "the server closed the connection without answering"
	plain, readOnly := k.agreed == nil, k.l.cfg.ReadOnly
	closed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	var timeout net.Error
	switch {
	case errors.As(err, new(*secure.Error)):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the server accepted the connection, but did not answer in time")
	case closed && errors.Is(err, errDuringSASL):
		return errors.New("the server closed the connection during SASL authentication, as ZooKeeper 3.4 does when it rejects the credentials")
	case closed && plain && readOnly:
		return errors.New(hungUp + ", perhaps because this port expects TLS (use --tls)")
	case closed && plain:
		return errors.New(hungUp + ", perhaps because this port expects TLS (use --tls), or because the server has no quorum (use -r)")
	case closed && !readOnly:
		return errors.New(hungUp + ", perhaps because the server has no quorum (use -r)")
	case closed:
		return errors.New(hungUp)
	}
	return plainCause(err)
}

// cutShort is what io.ReadFull says of a length that ends after some of its bytes.
func cutShort(err error, some int) error {
	if some > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frame reads one frame and returns what of it is meant for the library: all of
// it with its length, or nothing.
func (k *frameConn) frame() ([]byte, error) {
	peeked, err := k.r.Peek(4)
	if err != nil {
		return nil, cutShort(err, len(peeked))
	}
	head := [4]byte(peeked)
	k.r.Discard(4) // which are there
	n := int64(binary.BigEndian.Uint32(head[:]))
	switch {
	case !k.live && n > maxConnectReply:
		more, _ := k.r.Peek(min(k.r.Buffered(), 60))
		return nil, notZooKeeper(append(head[:], more...))
	case k.live && n > uncounted:
		if admitted, err := k.admit(int(n)); !admitted {
			return nil, err
		}
	}
	const step = 1 << 20
	f, err := jute.ReadBehind(k.r, append(k.roomFor(4+int(min(n, step))), head[:]...), int(n), step)
	if err != nil {
		return nil, err
	}
	if k.live && n > uncounted {
		k.l.cfg.waiting.hold(f)
	}
	if !k.live {
		return f, k.handshake(f[4:])
	}
	return k.demultiplex(f)
}

// Frames of up to shortFrame bytes share memory, roomBytes at a time.
const (
	shortFrame = 256
	roomBytes  = 8 << 10
)

// roomFor is memory for a frame, or for its beginning. Most frames are short, and there
// are many of them.
func (k *frameConn) roomFor(n int) []byte {
	if n > shortFrame {
		return make([]byte, 0, n)
	}
	if len(k.room) < n {
		k.room = make([]byte, roomBytes)
	}
	f := k.room[:0:n]
	k.room = k.room[n:]
	return f
}

// welcome is a connect reply.
type welcome struct {
	timeout  time.Duration
	id       int64
	passwd   []byte
	readOnly bool
}

// handshake looks at the connect reply. Everything that must precede the first
// request of this connection (credentials, watches) is queued from here.
func (k *frameConn) handshake(body []byte) error {
	if k.session != look(k.l, func() int64 { return k.l.id }) {
		return errBygone
	}
	w, err := k.l.welcomed(body, k.session)
	switch {
	case err != nil:
		return err
	case w.id == 0:
		clear(body[4:16]) // the timeout and the id: the library knows no other form of an expiry
		if !k.l.expired() {
			return errors.New("the server did not open a session")
		}
		// The library starts a new session on a new connection by itself, but
		// leaves this one open.
		k.release()
		return k.Conn.Close()
	}
	if err := k.authenticate(); err != nil {
		return err
	}
	k.live, k.timeout = true, w.timeout
	binary.BigEndian.PutUint32(body[4:], uint32(k.l.bounded(w.timeout).Milliseconds())) // by which the library pings and waits
	k.release()
	k.l.established(k, w)
	return nil
}

// welcomed reads the reply to a request for a session; id 0 is that of one that is over.
func (l *link) welcomed(body []byte, asked int64) (welcome, error) {
	d := jute.NewDecoder(body)
	version := d.Int()
	w := welcome{timeout: time.Duration(d.Int()) * time.Millisecond, id: d.Long(), passwd: bytes.Clone(d.Buffer())}
	w.readOnly = d.Err() == nil && len(d.Rest()) > 0 && d.Bool()
	switch {
	case d.Err() != nil && len(body) == 16: // an error header instead
		return w, l.refusedBy(Code(int32(binary.BigEndian.Uint32(body[12:]))))
	case d.Err() != nil:
		return w, notZooKeeper(body[:min(len(body), 60)])
	}
	return w.judged(version, asked)
}

// demultiplex keeps the answers to our own requests, and passes on what is for
// the library: answers to its requests and pings, and events, which it looks at.
func (k *frameConn) demultiplex(f []byte) ([]byte, error) {
	d := jute.NewDecoder(f[4:])
	xid, zxid, code := d.Int(), d.Long(), Code(d.Int())
	if d.Err() != nil {
		return nil, fault("the server sent a truncated reply")
	}
	switch {
	case xid >= xidBase:
		return nil, k.answered(xid, reply{zxid: zxid, code: code, body: d.Rest()})
	case xid == jute.XidEvent:
		typ, _, path := d.Int(), d.Int(), d.String() // the state is SyncConnected, always
		if d.Err() != nil {
			return nil, fault("the server sent a truncated event")
		}
		if len(path) > jute.MaxPath {
			return nil, fault(fmt.Sprintf("the server sent an event with a path of %d bytes", len(path)))
		}
		if err := k.l.nodeEvent(cmp.Or(eventTypes[typ], EventType(strconv.Itoa(int(typ)))), path, zxid); err != nil {
			return nil, err
		}
	case xid == jute.XidPing && code != codeOK: // of a server that wants credentials first
		k.refused(code)
		return nil, fault("the server rejected a ping: " + code.Error())
	case xid == jute.XidPing:
		k.l.contact(k.pinged(), 0)
	case !k.expected(xid):
		return nil, neverAsked(xid)
	}
	return f, k.stalled()
}

func neverAsked(xid int32) error {
	return fault(fmt.Sprintf("the server sent a reply to a request that zksh never sent (xid %d)", xid))
}

// answered gives the reply to the call it is for.
func (k *frameConn) answered(xid int32, r reply) error {
	k.mu.Lock()
	i, at := k.awaited(xid)
	if i < 0 {
		k.mu.Unlock()
		return neverAsked(xid)
	}
	c := k.pending[i]
	k.heard = k.still // when it was read, or a part of it
	k.answers.add(c.sent, k.heard, k.timeout)
	k.doubtful(r.code)
	c.put(at, r)
	left, moved := c.left, movedAway(c.op, r)
	if left == 0 && !moved {
		k.pending = slices.Delete(k.pending, i, i+1)
	}
	k.mu.Unlock()
	if moved {
		return k.moved(c, r)
	}
	if c.effect != nil {
		c.effect(at, r)
	}
	if r.code == SessionExpired {
		return k.sessionOver(c, left, r)
	}
	if left > 0 {
		return nil
	}
	k.l.contact(c.sent, r.zxid)
	k.tried(c, r.code)
	if c.parts != nil {
		r = reply{zxid: r.zxid, parts: c.parts}
	}
	c.end(r)
	return nil
}

// sessionOver ends the session when an answer says that it is over, and the connection:
// a server closes it, and one that does not would answer each request alike. A call
// without answers that are left has been taken out of those that wait.
func (k *frameConn) sessionOver(c *call, left int, r reply) error {
	why := fault("the server reported that the session has expired")
	current := look(k.l, func() bool { return k.l.cur == k }) // until this goroutine returns there is no other
	k.die(why)
	if current {
		k.l.expired()
	}
	if left == 0 {
		c.end(r)
	}
	return why
}

// awaited is where the call stands that an answer is to, which nearly always is the first
// one, and the place of its request; -1 if there is none. Called with mu held.
func (k *frameConn) awaited(xid int32) (i, at int) {
	for i, c := range k.pending {
		if at, is := c.awaits(xid); is {
			return i, at
		}
	}
	return -1, 0
}

// expected takes note of the answer to a request of the library, if there was one.
func (k *frameConn) expected(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer delete(k.theirs, xid)
	return k.theirs[xid]
}

// pinged takes the send time of the oldest unanswered ping; zero if there is none.
func (k *frameConn) pinged() (sent time.Time) {
	k.mu.Lock()
	if len(k.pings) > 0 {
		sent, k.pings = k.pings[0], k.pings[1:]
		k.answers.add(sent, time.Now(), k.timeout)
	}
	sound := k.sound()
	k.mu.Unlock()
	if sound {
		k.l.wake()
	}
	return sent
}

// stalled gives up a connection on which pings are answered and requests are not:
// no answer to any of ours has come for as long as a session lasts. It is asked
// whenever something else comes in, which pings see to; where not even they are
// answered, the library's read deadline ends the connection.
func (k *frameConn) stalled() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	patience := k.l.bounded(k.timeout)
	if len(k.pending) == 0 || time.Since(k.heard) < patience {
		return nil
	}
	return silence{patience}
}

// silence is why a connection was given up on which pings alone are answered.
type silence struct{ time.Duration }

func (s silence) Error() string {
	return fmt.Sprintf("the server did not answer a request within %s, although it answers pings", s.Duration)
}
