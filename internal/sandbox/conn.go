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
	handshakeTimeout = 10 * time.Second // time limit for the first frame and for the last output
	maxIDs           = 64               // maximum number of identities of one connection
	maxCredential    = 4096             // maximum length of an authentication credential, in bytes
	maxQueued        = 256 << 20        // maximum total length of all output queues, in bytes
	maxKeptBuffer    = 64 << 10         // maximum capacity of a buffer that is reused, in bytes
	smallReadBuffer  = 2 << 10          // initial size of a connection's read buffer, in bytes
	largeReadBuffer  = 16 << 10         // size of the read buffer after the small one was full, in bytes
)

// bufferPool contains unused output buffers, which all connections share.
var bufferPool = sync.Pool{New: func() any { return new([]byte) }}

// A conn is a client's connection to the server. Its own goroutine reads requests and executes
// them. Output is queued in out, so that a client that does not read its replies does not block
// other clients.
type conn struct {
	s  *Server
	nc net.Conn
	r  *bufio.Reader

	// The fields below are guarded by Server.mu.
	ip     id
	ids    []id
	authed bool     // whether the server has accepted a credential of this client
	sess   *session // session of this client; nil until it has sent a connect request
	gone   bool     // whether the connection has been unregistered, so that nothing more is sent to it
	stats  connStats

	// mu guards the fields below. Lock Server.mu before conn.mu.
	mu   sync.Mutex
	idle sync.Cond // signals that writing has become false
	out  []byte    // frames that are waiting to be sent; nil if there are none
	// serving means that the connection's goroutine is executing a request, and will send the queue
	// afterwards.
	serving bool
	writing bool // whether a goroutine is in flush, or about to call it
	broken  bool // whether the client has disconnected or reads too slowly
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, r: bufio.NewReaderSize(nc, smallReadBuffer), ip: id{"ip", hostOf(nc)}}
	c.idle.L = &c.mu
	c.ids = []id{c.ip}
	c.stats.since = s.now()
	return c
}

// hostOf returns the client's IP address in the format of the ACL scheme ip. For a client in the
// same process, which has no IP address, it returns 127.0.0.1.
func hostOf(nc net.Conn) string {
	peer, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return "127.0.0.1"
	}
	addr := peer.Addr().Unmap()
	if addr.Is4() {
		return addr.String()
	}
	// groups contains all eight groups of an IPv6 address. Like Java, do not abbreviate zeros to
	// "::".
	var groups []string
	for b := range slices.Chunk(addr.AsSlice(), 2) {
		groups = append(groups, strconv.FormatUint(uint64(binary.BigEndian.Uint16(b)), 16))
	}
	return strings.Join(groups, ":")
}

// serve reads frames from the client and executes them, until either side closes the connection.
func (c *conn) serve() {
	v := c.readFirstFrame()
	var buf []byte
	for v == keepOpen {
		var err error
		if buf, err = c.readFrame(buf); err != nil {
			break
		}
		v = c.process(func(c *conn, b []byte) verdict { return c.s.handler(c, b) }, buf)
	}
	c.s.mu.Lock()
	c.s.unregister(c)
	c.s.mu.Unlock()
	c.mu.Lock()
	for v == closeAfterFlush && c.writing {
		c.idle.Wait()
	}
	_ = c.nc.Close()
	c.broken = true
	for c.writing {
		c.idle.Wait()
	}
	c.mu.Unlock()
}

// readFirstFrame reads and executes the first input from a client. This is either a connect
// request or a four-letter command.
func (c *conn) readFirstFrame() verdict {
	_ = c.nc.SetDeadline(time.Now().Add(handshakeTimeout))
	if b, err := c.r.Peek(4); err == nil && fourLetterCommands[string(b)] != nil {
		return c.process(c.s.fourLetterCommand, b)
	}
	b, err := c.readFrame(nil)
	if err != nil {
		return closeNow
	}
	_ = c.nc.SetDeadline(time.Time{})
	return c.process(c.s.connect, b)
}

// process passes the frame b to the function execute while it holds Server.mu. It then sends the
// queued replies, unless the client's next request has already arrived.
func (c *conn) process(execute func(*conn, []byte) verdict, b []byte) verdict {
	c.beginRequest()
	c.s.mu.Lock()
	v := closeNow
	if !c.gone {
		v = execute(c, b)
	}
	c.s.mu.Unlock()
	if v == closeAfterFlush {
		_ = c.nc.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	}
	if v != keepOpen || !c.hasBufferedFrame() {
		c.drain()
	}
	return v
}

// hasBufferedFrame reports whether the next request has already arrived, so that one write can send
// the replies to both. It returns false if many replies are already queued, because they should be
// sent now.
func (c *conn) hasBufferedFrame() bool {
	buffered := c.r.Buffered()
	if buffered < 4 {
		return false
	}
	head, err := c.r.Peek(4)
	if err != nil || uint64(buffered) < 4+uint64(binary.BigEndian.Uint32(head)) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out) < maxKeptBuffer && !c.broken
}

// readFrame reads one frame from the client and returns its content. It reuses buf if buf is
// large enough.
func (c *conn) readFrame(buf []byte) ([]byte, error) {
	head, err := c.r.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if c.r.Buffered() == smallReadBuffer {
		c.r = bufio.NewReaderSize(c.r, largeReadBuffer)
	}
	_, _ = c.r.Discard(4) // never fails after Peek
	if size > maxFrame {  // a negative length is a large uint32, so it is rejected, too
		return nil, io.ErrShortBuffer
	}
	if cap(buf) > maxKeptBuffer {
		buf = nil
	}
	return jute.ReadBehind(c.r, buf[:0], int(size), maxKeptBuffer)
}

// send queues a frame for the client. If the queue of this connection exceeds MaxQueue, or all
// queues together exceed maxQueued, the client reads too slowly. In this case, send closes the
// connection instead. The caller must hold Server.mu.
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
		c.discardQueue()
		_ = c.nc.Close()
		return
	}
	if c.out == nil {
		c.out = (*bufferPool.Get().(*[]byte))[:0]
	}
	c.out = append(c.out, frame...)
	c.s.queued.Add(int64(len(frame)))
	if c.writing || c.serving {
		return
	}
	c.writing = true
	c.s.wg.Go(c.flush)
}

// flush sends queued frames to the client until the queue is empty.
func (c *conn) flush() {
	c.mu.Lock()
	for len(c.out) > 0 && !c.broken {
		b := c.out
		c.out = nil
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		c.s.queued.Add(-int64(len(b)))
		if cap(b) <= 2*maxKeptBuffer { // append may have doubled the capacity
			bufferPool.Put(&b)
		}
		c.mu.Lock()
		if err != nil {
			c.broken = true
			_ = c.nc.Close()
		}
	}
	if c.broken {
		c.discardQueue()
	}
	c.writing = false
	c.idle.Broadcast()
	c.mu.Unlock()
}

func (c *conn) discardQueue() {
	c.s.queued.Add(-int64(len(c.out)))
	c.out = nil
}

// beginRequest must be called before a request is executed, and drain after it. On a TCP
// connection, this makes the goroutine that executes the request send the reply, too. This saves a
// goroutine switch, and a client that does not read its replies cannot send more requests.
//
// On a net.Pipe, which tests use, another goroutine sends the reply. A pipe has no buffer, so the
// client may still be blocked in writing its next request.
func (c *conn) beginRequest() {
	if _, tcp := c.nc.(*net.TCPConn); !tcp || c.serving { // no other goroutine sets c.serving
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
	for c.writing && len(c.out) > maxKeptBuffer {
		c.idle.Wait()
	}
	c.mu.Unlock()
}

// addIDs adds identities to those of the client, without duplicates. It returns false if the client
// now has more than maxIDs identities.
func (c *conn) addIDs(ids []id) bool {
	for _, who := range ids {
		if !slices.Contains(c.ids, who) {
			c.ids = append(c.ids, who)
		}
	}
	return len(c.ids) <= maxIDs
}

// Constants of ZooKeeper's client protocol. The opcodes are in package jute.
const (
	opError   = -1            // opcode of a failed operation in the reply to a multi
	maxFrame  = 0xfffff       // maximum length of a frame, in bytes; ZooKeeper's default
	maxTTL    = 1<<40 - 1     // maximum time to live of a node, in milliseconds
	headerLen = 4 + 4 + 8 + 4 // length of a frame's header: length, xid, zxid and error code
	maxReply  = 16 << 20      // length of a reply, in bytes, beyond which a multiRead fails
)

// A code is an error code of ZooKeeper's client protocol.
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
	codeInvalidACL           code = -114
	codeAuthFailed           code = -115
	codeNoWatcher            code = -121
	codeReconfigDisabled     code = -123
	codeSessionNoAuth        code = -124
	codeQuotaExceeded        code = -125
	codeThrottled            code = -127
)

// Bits that represent the permissions in an ACL entry.
const (
	permRead   = 1
	permWrite  = 2
	permCreate = 4
	permDelete = 8
	permAdmin  = 16
	permAll    = 31
)

// Types of watch events, and the connection state that is part of every watch event.
const (
	eventNodeCreated         = 1
	eventNodeDeleted         = 2
	eventNodeDataChanged     = 3
	eventNodeChildrenChanged = 4
	stateSyncConnected       = 3
)

// Modes of new nodes, as in the field flags of a create request.
const (
	modePersistent    = 0
	modeEphemeral     = 1
	modeSequential    = 2
	modeEphemeralSeq  = 3
	modeContainer     = 4
	modeTTL           = 5
	modeTTLSequential = 6
)

// frame returns a new encoder with the beginning of a reply: a placeholder for the length, and the
// header.
func frame(xid int32, zxid int64, err code) *jute.Encoder {
	e := &jute.Encoder{B: make([]byte, 0, 128)}
	begin(e, xid, zxid, err)
	return e
}

// begin writes the beginning of a reply to e: a placeholder for the length, and the header.
func begin(e *jute.Encoder, xid int32, zxid int64, err code) {
	e.Int(0, xid)
	e.Long(zxid)
	e.Int(int32(err))
}

// finish returns the complete frame in e. It replaces the placeholder at the beginning with the
// length of the frame.
func finish(e *jute.Encoder) []byte {
	binary.BigEndian.PutUint32(e.B, uint32(len(e.B)-4))
	return e.B
}

// noZxid is the zxid in a watch event that does not name the transaction that caused it.
const noZxid = -1

// eventFrame returns the frame of a watch event about the node at path.
func eventFrame(typ int32, zxid int64, path string) []byte {
	e := frame(jute.XidEvent, zxid, codeOK)
	e.Int(typ, stateSyncConnected)
	e.String(path)
	return finish(e)
}
