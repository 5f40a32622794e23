package sandbox

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

const (
	handshakeTime = 10 * time.Second // for the first frame, and for the last bytes out
	maxIDs        = 64               // identities a connection may collect
	maxCredential = 4096             // bytes of one
	maxQueued     = 256 << 20        // bytes waiting in all queues before one is cut
	keepBuffer    = 64 << 10         // a larger buffer is not kept for the next use
	fewRequests   = 2 << 10          // bytes that are read at once
	manyRequests  = 16 << 10         // of a client that has filled that once
)

// queues are what answers were queued in, for the next ones of any connection.
var queues = sync.Pool{New: func() any { return new([]byte) }}

// conn is one client connection. A goroutine of its own reads and carries out
// its requests; what it has to be sent waits in out, so that nobody else is
// held up by a client that does not read.
type conn struct {
	s  *Server
	nc net.Conn
	r  *bufio.Reader

	// Guarded by the server's lock.
	ip     id
	ids    []id
	authed bool     // a credential was accepted
	sess   *session // nil until the first frame
	gone   bool     // no longer the server's: nothing is sent any more
	stats  connStats

	mu      sync.Mutex // taken after the server's, never before
	idle    sync.Cond  // writing has become false
	out     []byte     // nil while there is nothing
	serving bool       // its own goroutine carries out a request, and will flush
	writing bool       // out is being sent, or will be by the goroutine above
	broken  bool       // the other side is gone, or too slow
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, r: bufio.NewReaderSize(nc, fewRequests), ip: id{"ip", hostOf(nc)}}
	c.idle.L = &c.mu
	c.ids = []id{c.ip}
	c.stats.since = s.now()
	return c
}

// hostOf is the peer's address as the ip scheme has it; an in-process peer
// counts as local.
func hostOf(nc net.Conn) string {
	peer, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return "127.0.0.1"
	}
	addr := peer.Addr().Unmap()
	if addr.Is4() {
		return addr.String()
	}
	var groups []string // Java writes all eight
	for b := range slices.Chunk(addr.AsSlice(), 2) {
		groups = append(groups, strconv.FormatUint(uint64(binary.BigEndian.Uint16(b)), 16))
	}
	return strings.Join(groups, ":")
}

// serve reads and carries out frames until either side has had enough.
func (c *conn) serve() {
	v := c.first()
	var buf []byte
	for v == stay {
		var err error
		if buf, err = c.readFrame(buf); err != nil {
			break
		}
		v = c.do(func(c *conn, b []byte) verdict { return c.s.carryOut(c, b) }, buf)
	}
	c.s.mu.Lock()
	c.s.forget(c)
	c.s.mu.Unlock()
	c.mu.Lock()
	for v == leave && c.writing {
		c.idle.Wait()
	}
	_ = c.nc.Close()
	c.broken = true
	for c.writing {
		c.idle.Wait()
	}
	c.mu.Unlock()
}

// first reads the first frame: a request to connect, or a four-letter word.
func (c *conn) first() verdict {
	_ = c.nc.SetDeadline(time.Now().Add(handshakeTime))
	if b, err := c.r.Peek(4); err == nil && words[string(b)] != nil {
		return c.do(c.s.word, b)
	}
	b, err := c.readFrame(nil)
	if err != nil {
		return cut
	}
	_ = c.nc.SetDeadline(time.Time{})
	return c.do(c.s.connect, b)
}

// do has a frame carried out with the server locked, and sends the answer.
func (c *conn) do(f func(*conn, []byte) verdict, b []byte) verdict {
	c.begin()
	c.s.mu.Lock()
	v := cut
	if !c.gone {
		v = f(c, b)
	}
	c.s.mu.Unlock()
	if v == leave {
		_ = c.nc.SetWriteDeadline(time.Now().Add(handshakeTime))
	}
	if v != stay || !c.another() {
		c.drain()
	}
	return v
}

// another reports whether the next frame is here already, whole: then the answers to both
// can go together, unless they get long.
func (c *conn) another() bool {
	here := c.r.Buffered()
	if here < 4 {
		return false
	}
	head, err := c.r.Peek(4)
	if err != nil || uint64(here) < 4+uint64(binary.BigEndian.Uint32(head)) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out) < keepBuffer && !c.broken
}

// readFrame reads one frame, into buf if that is large enough.
func (c *conn) readFrame(buf []byte) ([]byte, error) {
	head, err := c.r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if c.r.Buffered() == fewRequests {
		c.r = bufio.NewReaderSize(c.r, manyRequests)
	}
	_, _ = c.r.Discard(4) // which are there
	if size > maxFrame {  // negative lengths too
		return nil, io.ErrShortBuffer
	}
	if cap(buf) > keepBuffer {
		buf = nil
	}
	return jute.ReadBehind(c.r, buf[:0], int(size), keepBuffer)
}

// send queues a frame, with the server locked. The queue is bounded: a client
// that does not read its events is cut off.
func (c *conn) send(frame []byte) {
	if c.gone {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return
	}
	if len(c.out) > c.s.opt.MaxQueue || len(c.out) > 0 && c.s.queued.Load() > maxQueued {
		c.broken = true
		c.forgetQueue()
		_ = c.nc.Close()
		return
	}
	if c.out == nil {
		c.out = (*queues.Get().(*[]byte))[:0]
	}
	c.out = append(c.out, frame...)
	c.s.queued.Add(int64(len(frame)))
	if c.writing || c.serving {
		return
	}
	c.writing = true
	c.s.wg.Go(c.flush)
}

// flush sends what is queued, until nothing is.
func (c *conn) flush() {
	c.mu.Lock()
	for len(c.out) > 0 && !c.broken {
		b := c.out
		c.out = nil
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		c.s.queued.Add(-int64(len(b)))
		if cap(b) <= 2*keepBuffer { // which it reaches while it grows
			queues.Put(&b)
		}
		c.mu.Lock()
		if err != nil {
			c.broken = true
			_ = c.nc.Close()
		}
	}
	if c.broken {
		c.forgetQueue()
	}
	c.writing = false
	c.idle.Broadcast()
	c.mu.Unlock()
}

func (c *conn) forgetQueue() {
	c.s.queued.Add(-int64(len(c.out)))
	c.out = nil
}

// begin and drain enclose the handling of a frame. Replies are sent by the
// goroutine that made them, which spares a switch, and keeps a client that does
// not read its replies from asking for more. A pipe, as in tests, has no buffer, so
// there the other side may be writing still: replies have to be sent on the side.
func (c *conn) begin() {
	if _, tcp := c.nc.(*net.TCPConn); !tcp || c.serving { // which nobody else changes
		return
	}
	c.mu.Lock()
	c.serving = true
	c.mu.Unlock()
}

func (c *conn) drain() {
	c.mu.Lock()
	c.serving = false
	if !c.writing && len(c.out) > 0 {
		c.writing = true
		c.mu.Unlock()
		c.flush()
		return
	}
	for c.writing && len(c.out) > keepBuffer {
		c.idle.Wait()
	}
	c.mu.Unlock()
}

// addIDs adds identities, each once.
func (c *conn) addIDs(ids []id) bool {
	for _, who := range ids {
		if !slices.Contains(c.ids, who) {
			c.ids = append(c.ids, who)
		}
	}
	return len(c.ids) <= maxIDs
}

// Marks and bounds of the client protocol; the opcodes are jute's.
const (
	opError   = -1      // the type of a failed result inside a multi
	maxFrame  = 0xfffff // the real one's jute.maxbuffer, 1 MiB - 1
	maxTTL    = 1<<40 - 1
	headerLen = 4 + 4 + 8 + 4 // length, xid, zxid, error
	maxReply  = 16 << 20      // past this a multiRead ends
)

// code is an error code of the protocol.
type code int32

const (
	codeOK                   code = 0
	codeSystemError          code = -1
	codeRuntimeInconsistency code = -2
	codeMarshalling          code = -5
	codeUnimplemented        code = -6
	codeBadArguments         code = -8
	codeNoNode               code = -101
	codeNoAuth               code = -102
	codeBadVersion           code = -103
	codeNoChildrenForEphs    code = -108
	codeNodeExists           code = -110
	codeNotEmpty             code = -111
	codeSessionExpired       code = -112
	codeInvalidACL           code = -114
	codeAuthFailed           code = -115
	codeNoWatcher            code = -121
	codeReconfigDisabled     code = -123
	codeSessionNoAuth        code = -124
	codeQuotaExceeded        code = -125
	codeThrottled            code = -127
)

// Permissions in an ACL.
const (
	permRead   = 1
	permWrite  = 2
	permCreate = 4
	permDelete = 8
	permAdmin  = 16
	permAll    = 31
)

// Types of a watch event.
const (
	eventNodeCreated         = 1
	eventNodeDeleted         = 2
	eventNodeDataChanged     = 3
	eventNodeChildrenChanged = 4
	stateSyncConnected       = 3
)

// Create modes, as the flags of a create request say them.
const (
	modePersistent    = 0
	modeEphemeral     = 1
	modeSequential    = 2
	modeEphemeralSeq  = 3
	modeContainer     = 4
	modeTTL           = 5
	modeTTLSequential = 6
)

// frame starts a reply: room for the length, then the header.
func frame(xid int32, zxid int64, err code) *jute.Encoder {
	e := &jute.Encoder{B: make([]byte, 0, 128)}
	begin(e, xid, zxid, err)
	return e
}

// begin is frame in a buffer that is there already.
func begin(e *jute.Encoder, xid int32, zxid int64, err code) {
	e.Int(0, xid)
	e.Long(zxid)
	e.Int(int32(err))
}

// finish writes the length in front of a frame and returns the frame.
func finish(e *jute.Encoder) []byte {
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4))
	return e.B
}

// noZxid is that of an event which does not tell its transaction.
const noZxid = -1

// eventFrame is a watch event.
func eventFrame(typ int32, zxid int64, path string) []byte {
	e := frame(jute.XidEvent, zxid, codeOK)
	e.Int(typ, stateSyncConnected)
	e.String(path)
	return finish(e)
}
