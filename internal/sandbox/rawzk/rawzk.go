// Package rawzk is a low-level ZooKeeper client for tests. With it, a test can send requests that
// no client library would send, and can see every byte of the replies. Begin with Connect and
// Conn.Call. Functions such as Create and Set encode the bodies of requests.
package rawzk

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/zksh/zksh/internal/jute"
)

// A Session identifies a ZooKeeper session to resume. Its zero value requests a new session.
type Session struct {
	ID      int64
	Passwd  []byte
	Timeout int32 // session timeout in milliseconds; 0 in the server's reply if the session has expired
}

// A Frame is a reply or a watch event from the server.
type Frame struct {
	Xid  int32 // xid of the request to which this is the reply; -1 for a watch event
	Zxid int64
	Err  int32
	Body []byte
}

// A Conn is a client's connection. It must not be used by several goroutines at the same time.
type Conn struct {
	net.Conn
	Session Session
	r       *bufio.Reader
	xid     int32
}

// Connect opens or resumes a session over the network connection nc. lastZxid is the last zxid
// that the client claims to have seen.
func Connect(nc net.Conn, s Session, lastZxid int64) (*Conn, error) {
	c := &Conn{Conn: nc, r: bufio.NewReader(nc)}
	var e jute.Encoder
	e.Int(0)
	e.Long(lastZxid)
	e.Int(s.Timeout)
	e.Long(s.ID)
	if s.Passwd == nil {
		s.Passwd = make([]byte, 16)
	}
	e.Buffer(s.Passwd)
	e.Bool(false)
	if err := c.WriteFrame(e.B); err != nil {
		return nil, err
	}
	b, err := c.ReadFrame()
	if err != nil {
		return nil, err
	}
	d := jute.NewDecoder(b)
	d.Int()
	c.Session.Timeout = d.Int()
	c.Session.ID = d.Long()
	c.Session.Passwd = d.Buffer()
	return c, d.Err()
}

// WriteFrame sends b as one frame: first its length, then b itself.
func (c *Conn) WriteFrame(b []byte) error {
	_, err := c.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// ReadFrame waits for the next frame and returns its content, without the length.
func (c *Conn) ReadFrame() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 1<<28 {
		return nil, fmt.Errorf("rawzk: the server sent a frame of %d bytes, which is too large", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

// Send sends a request, and does not wait for the reply.
func (c *Conn) Send(xid, op int32, body []byte) error {
	var e jute.Encoder
	e.Int(xid)
	e.Int(op)
	return c.WriteFrame(append(e.B, body...))
}

// Recv waits for the next reply or watch event and returns it.
func (c *Conn) Recv() (Frame, error) {
	b, err := c.ReadFrame()
	if err != nil {
		return Frame{}, err
	}
	d := jute.NewDecoder(b)
	f := Frame{Xid: d.Int(), Zxid: d.Long(), Err: d.Int(), Body: d.Rest()}
	return f, d.Err()
}

// Call sends a request and waits for its reply. It returns all frames that arrived: watch
// events, and finally the reply.
func (c *Conn) Call(op int32, body []byte) ([]Frame, error) {
	c.xid++
	if err := c.Send(c.xid, op, body); err != nil {
		return nil, err
	}
	return c.until(c.xid)
}

const (
	opPing  = 11
	pingXid = -2
)

// Ping sends a ping request. Call Pong to wait for the reply.
func (c *Conn) Ping() error { return c.Send(pingXid, opPing, nil) }

// Pong waits for the reply to Ping. It returns the frames that arrived before the reply.
func (c *Conn) Pong() ([]Frame, error) {
	frames, err := c.until(pingXid)
	if err != nil {
		return frames, err
	}
	return frames[:len(frames)-1], nil
}

// Flush sends a ping and waits for the reply. It returns the frames that arrived before the
// reply.
func (c *Conn) Flush() ([]Frame, error) {
	if err := c.Ping(); err != nil {
		return nil, err
	}
	return c.Pong()
}

func (c *Conn) until(xid int32) ([]Frame, error) {
	var frames []Frame
	for {
		f, err := c.Recv()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
		if f.Xid == xid {
			return frames, nil
		}
	}
}

// An ACL is one entry of an access control list.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

// Open is an ACL that grants all permissions to everyone.
var Open = []ACL{{31, "world", "anyone"}}

func acls(e *jute.Encoder, list []ACL) {
	e.Int(int32(len(list)))
	for _, a := range list {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

// Create returns the body of a create, create2 or createContainer request (opcode 1, 15 or 19).
func Create(path string, data []byte, list []ACL, flags int32) []byte {
	var e jute.Encoder
	e.String(path)
	e.Buffer(data)
	acls(&e, list)
	e.Int(flags)
	return e.B
}

// CreateTTL returns the body of a createTTL request (opcode 21). ttl is in milliseconds.
func CreateTTL(path string, data []byte, list []ACL, flags int32, ttl int64) []byte {
	e := jute.Encoder{B: Create(path, data, list, flags)}
	e.Long(ttl)
	return e.B
}

// Set returns the body of a setData request.
func Set(path string, data []byte, version int32) []byte {
	var e jute.Encoder
	e.String(path)
	e.Buffer(data)
	e.Int(version)
	return e.B
}

// SetACL returns the body of a setACL request.
func SetACL(path string, list []ACL, version int32) []byte {
	var e jute.Encoder
	e.String(path)
	acls(&e, list)
	e.Int(version)
	return e.B
}

// PathInt returns the body of a request that consists of a path and an integer, such as a delete,
// check, addWatch, removeWatches or checkWatches request.
func PathInt(path string, n int32) []byte {
	var e jute.Encoder
	e.String(path)
	e.Int(n)
	return e.B
}

// PathWatch returns the body of a request that consists of a path and a watch flag, such as an
// exists, getData or getChildren request.
func PathWatch(path string, watch bool) []byte {
	var e jute.Encoder
	e.String(path)
	e.Bool(watch)
	return e.B
}

// Path returns the body of a request that consists of a path, such as a sync, getACL,
// getEphemerals or getAllChildrenNumber request.
func Path(path string) []byte {
	var e jute.Encoder
	e.String(path)
	return e.B
}

// Auth returns the body of an auth request (opcode 100).
func Auth(scheme, cred string) []byte {
	var e jute.Encoder
	e.Int(0)
	e.String(scheme)
	e.Buffer([]byte(cred))
	return e.B
}

// An Op is one operation in a multi request.
type Op struct {
	Op   int32
	Body []byte
}

// Multi returns the body of a multi or multiRead request with the given operations.
func Multi(ops ...Op) []byte {
	var e jute.Encoder
	for _, op := range ops {
		e.Int(op.Op)
		e.Bool(false)
		e.Int(-1)
		e.B = append(e.B, op.Body...)
	}
	e.Int(-1)
	e.Bool(true)
	e.Int(-1)
	return e.B
}

// SetWatches returns the body of a request that restores watches after a reconnect. With three
// lists of paths it is a setWatches request (opcode 101), and with five a setWatches2 request
// (opcode 105).
func SetWatches(zxid int64, lists ...[]string) []byte {
	var e jute.Encoder
	e.Long(zxid)
	for _, l := range lists {
		e.Strings(l)
	}
	return e.B
}
