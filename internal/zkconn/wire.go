package zkconn

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
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

// Limits on incoming frames, in bytes. A connect reply has 41; whoever answers
// with more is no ZooKeeper server. Later replies may exceed ZooKeeper's own
// 1 MiB limit many times: a node with a million children has a list of 40 MiB.
const (
	maxConnectReply = 1024
	maxFrame        = 256 << 20
)

// reply is what came back for a request: the server's code and the record behind
// the header, or err when there was none.
type reply struct {
	zxid int64
	code Code
	body []byte
	err  error
}

// call is one request under way.
type call struct {
	op    int32
	body  []byte
	path  string          // for errors, as the user wrote it
	write bool            // it may change something, so a lost reply matters
	ctx   context.Context // once it has ended the call is not sent any more; may be nil
	hook  func(*reply)    // runs in the receiving goroutine, before any later frame is looked at; may be nil
	size  int             // of the request's frame in bytes, once sent
	sent  time.Time       // when it was sent
	done  chan reply      // capacity 1
}

// frameConn is one TCP connection to one server.
type frameConn struct {
	net.Conn
	l      *link
	addr   string
	r      *bufio.Reader
	out    []byte      // the frame the library is reading
	unbind func() bool // takes back that the end of dialing closes the connection; nil in tests
	live   bool        // the connect reply was good; written and read by the library's reading goroutine

	wmu       sync.Mutex // one writer at a time
	wroteConn bool

	pmu     sync.Mutex
	next    int32
	pending map[int32]*call
	pings   []time.Time // send times of unanswered pings
	dead    error
}

func newFrameConn(c net.Conn, addr string, l *link) *frameConn {
	return &frameConn{Conn: c, l: l, addr: addr, r: bufio.NewReaderSize(c, 1<<15), pending: map[int32]*call{}}
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
	if !k.wroteConn {
		k.wroteConn = true
		q = k.l.connectRequest(p)
	} else if len(p) >= 12 && int32(binary.BigEndian.Uint32(p[4:])) == -2 {
		k.pmu.Lock()
		k.pings = append(k.pings, time.Now())
		k.pmu.Unlock()
	}
	if err := k.write(q); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write is called with wmu held.
func (k *frameConn) write(p []byte) error {
	if err := k.Conn.SetWriteDeadline(time.Now().Add(k.l.patience())); err != nil {
		return err
	}
	_, err := k.Conn.Write(p)
	return err
}

// send puts calls on the wire, in order and in one write. When it fails the
// connection is closed and each call gets its error through done.
func (k *frameConn) send(calls ...*call) {
	k.wmu.Lock()
	defer k.wmu.Unlock()
	var e jute.Encoder
	now := time.Now()
	k.pmu.Lock()
	for _, c := range calls {
		if k.dead != nil {
			c.done <- reply{err: &LostError{Path: c.path, Unsent: true, Cause: k.dead}}
			continue
		}
		if c.ctx != nil && c.ctx.Err() != nil { // nobody waits for it, and others may have acted on that
			c.done <- reply{err: &LostError{Path: c.path, Unsent: true, Cause: context.Cause(c.ctx)}}
			continue
		}
		c.sent = now
		xid := xidBase + k.next
		k.next = (k.next + 1) & (xidBase - 1)
		k.pending[xid] = c
		e.Int(int32(8 + len(c.body)))
		e.Int(xid)
		e.Int(c.op)
		e.B = append(e.B, c.body...)
		c.size, c.body = 8+len(c.body), nil
	}
	k.pmu.Unlock()
	if len(e.B) == 0 {
		return
	}
	if err := k.write(e.B); err != nil {
		k.die(err)
		k.Conn.Close() // the reading side ends with it
	}
}

// Read gives the library its frames and keeps ours.
func (k *frameConn) Read(p []byte) (int, error) {
	for len(k.out) == 0 {
		f, err := k.frame()
		if err != nil {
			if !k.live {
				k.l.attemptFailed(k.addr, handshakeCause(err))
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
type notZooKeeper struct{ said []byte }

func (e notZooKeeper) Error() string {
	s := strings.ToValidUTF8(string(e.said), "?")
	s, _, _ = strings.Cut(s, "\n")
	return fmt.Sprintf("does not speak ZooKeeper (it answered %q)", strings.TrimRight(s, "\r"))
}

func handshakeCause(err error) error {
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("accepted the connection but did not answer in time")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("closed the connection without an answer")
	}
	return plainCause(err)
}

// frame reads one frame and returns what of it is meant for the library: all of
// it with its length, or nothing.
func (k *frameConn) frame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(k.r, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	limit := int64(maxFrame)
	if !k.live {
		limit = maxConnectReply
	}
	if n > limit {
		if !k.live {
			more, _ := k.r.Peek(min(k.r.Buffered(), 60))
			return nil, notZooKeeper{append(head[:], more...)}
		}
		return nil, fmt.Errorf("a reply of %d bytes is over the limit of %d", n, limit)
	}
	f, err := readFrame(k.r, head, int(n))
	if err != nil {
		return nil, err
	}
	if !k.live {
		return f, k.handshake(f[4:])
	}
	return k.sort(f)
}

// readFrame reads n bytes behind head. Memory grows with what really arrives,
// never with what a length field claims.
func readFrame(r io.Reader, head [4]byte, n int) ([]byte, error) {
	const step = 1 << 20
	f := make([]byte, 4, 4+min(n, step))
	copy(f, head[:])
	for len(f) < 4+n {
		have := len(f)
		want := min(4+n, max(2*have, step))
		g := f
		if cap(g) < want {
			g = make([]byte, want)
			copy(g, f)
		}
		f = g[:want]
		if _, err := io.ReadFull(r, f[have:]); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// handshake looks at the connect reply. Everything that must precede the first
// request of this connection (credentials, watches) is sent from here.
func (k *frameConn) handshake(body []byte) error {
	d := jute.NewDecoder(body)
	d.Int() // protocol version
	timeout := time.Duration(d.Int()) * time.Millisecond
	id := d.Long()
	d.Buffer() // the password, which only the library needs
	readOnly := d.Err() == nil && len(d.Rest()) > 0 && d.Bool()
	if d.Err() != nil {
		if len(body) == 16 { // an error header instead: a read-only server that wants none of us
			return fmt.Errorf("refused the session: %w", Code(int32(binary.BigEndian.Uint32(body[12:]))))
		}
		return notZooKeeper{body[:min(len(body), 60)]}
	}
	if id == 0 {
		k.l.expired()
		// The library starts a new session on a new connection by itself, but
		// leaves this one open.
		k.release()
		return k.Conn.Close()
	}
	k.live = true
	k.release()
	k.l.established(k, id, timeout, readOnly)
	return nil
}

// sort keeps replies to our own requests and looks at events in passing.
func (k *frameConn) sort(f []byte) ([]byte, error) {
	d := jute.NewDecoder(f[4:])
	xid, zxid, code := d.Int(), d.Long(), Code(d.Int())
	if d.Err() != nil {
		return nil, d.Err()
	}
	switch {
	case xid == -1:
		typ, state, path := d.Int(), d.Int(), d.String()
		if d.Err() != nil {
			return nil, d.Err()
		}
		k.l.nodeEvent(EventType(typ), state, path)
		return f, nil
	case xid == -2:
		if sent := k.pinged(); !sent.IsZero() {
			k.l.contact(sent)
		}
		return f, nil
	case xid < xidBase:
		return f, nil
	}
	k.pmu.Lock()
	c := k.pending[xid]
	delete(k.pending, xid)
	k.pmu.Unlock()
	if c == nil {
		return nil, fmt.Errorf("a reply to a request never sent (xid %d)", xid)
	}
	k.l.contact(c.sent)
	k.l.sawZxid(zxid)
	r := reply{zxid: zxid, code: code, body: d.Rest()}
	if c.hook != nil {
		c.hook(&r)
	}
	c.done <- r
	return nil, nil
}

// pinged takes the send time of the oldest unanswered ping; zero if there is none.
func (k *frameConn) pinged() (sent time.Time) {
	k.pmu.Lock()
	defer k.pmu.Unlock()
	if len(k.pings) > 0 {
		sent, k.pings = k.pings[0], k.pings[1:]
	}
	return sent
}

// release unbinds the connection from the end of dialing.
func (k *frameConn) release() {
	if k.unbind != nil {
		k.unbind()
	}
}

// died tells whether the connection has ended. It may be asked under the link's lock.
func (k *frameConn) died() bool {
	k.pmu.Lock()
	defer k.pmu.Unlock()
	return k.dead != nil
}

// die ends every pending call with cause, once.
func (k *frameConn) die(cause error) {
	k.pmu.Lock()
	if k.dead != nil {
		k.pmu.Unlock()
		return
	}
	k.dead = cause
	lost := k.pending
	k.pending = nil
	k.pmu.Unlock()
	k.l.lost(k)
	for _, c := range lost {
		c.done <- reply{err: &LostError{Path: c.path, Write: c.write, Size: c.size, Cause: cause}}
	}
}

// Close is the library's way to give the connection up.
func (k *frameConn) Close() error {
	k.release()
	k.die(io.ErrClosedPipe)
	return k.Conn.Close()
}
