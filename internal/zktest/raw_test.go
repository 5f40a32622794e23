package zktest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

const (
	opCreate  = 1
	opExists  = 3
	opGetData = 4
	errNoNode = -101
)

func TestMain(m *testing.M) { Main(m) }

// A rawClient speaks just enough of ZooKeeper's protocol to test the proxy.
type rawClient struct {
	tb   testing.TB
	conn net.Conn
	xid  int32
}

// dialRaw connects and opens a session.
func dialRaw(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	c := dialOnly(tb, addr)
	c.sendConnect()
	reply, err := c.readFrame(Patience)
	if err != nil {
		tb.Fatalf("connect reply: %v", err)
	}
	if timeout := binary.BigEndian.Uint32(reply[4:]); timeout != 30000 {
		tb.Fatalf("session timeout = %d ms, want 30000", timeout)
	}
	return c
}

func dialOnly(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	Must(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return &rawClient{tb: tb, conn: conn}
}

func (c *rawClient) sendConnect() {
	b := make([]byte, 4+8)                      // protocol 0, zxid 0
	b = binary.BigEndian.AppendUint32(b, 30000) // timeout, ms
	b = append(b, make([]byte, 8)...)           // new session
	b = binary.BigEndian.AppendUint32(b, 16)    // password
	b = append(b, make([]byte, 16+1)...)        // and read-only
	c.write(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b)
}

// send sends a request and returns its xid.
func (c *rawClient) send(op int32, body []byte) int32 {
	c.tb.Helper()
	c.xid++
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(c.xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	c.write(b, body)
	return c.xid
}

func (c *rawClient) write(parts ...[]byte) {
	c.tb.Helper()
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	if _, err := c.conn.Write(all); err != nil {
		c.tb.Fatal(err)
	}
}

// readFrame returns the next frame without its length.
func (c *rawClient) readFrame(limit time.Duration) ([]byte, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c.conn, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c.conn, frame)
	return frame, err
}

// wantReply reads the reply to xid and returns its error code.
func (c *rawClient) wantReply(xid int32) int32 {
	c.tb.Helper()
	frame, err := c.readFrame(Patience)
	if err != nil {
		c.tb.Fatalf("reply %d: %v", xid, err)
	}
	if got := int32(binary.BigEndian.Uint32(frame)); got != xid {
		c.tb.Fatalf("reply to %d, want %d", got, xid)
	}
	return int32(binary.BigEndian.Uint32(frame[12:]))
}

// wantNothing fails the test if a frame arrives or the connection is closed.
func (c *rawClient) wantNothing() {
	c.tb.Helper()
	frame, err := c.readFrame(150 * time.Millisecond)
	if e := net.Error(nil); !errors.As(err, &e) || !e.Timeout() {
		c.tb.Fatalf("got %d bytes, %v; want silence", len(frame), err)
	}
}

// wantCut fails the test unless the connection is closed and no frame arrives before.
func (c *rawClient) wantCut() {
	c.tb.Helper()
	frame, err := c.readFrame(Patience)
	if e := net.Error(nil); err == nil || errors.As(err, &e) && e.Timeout() {
		c.tb.Fatalf("got %d bytes, %v; want the end", len(frame), err)
	}
}

func (c *rawClient) create(path string) int32 {
	c.tb.Helper()
	b := appendString(nil, path)
	b = appendString(b, "data")
	b = binary.BigEndian.AppendUint32(b, 1)  // one ACL entry
	b = binary.BigEndian.AppendUint32(b, 31) // all permissions
	b = appendString(appendString(b, "world"), "anyone")
	b = binary.BigEndian.AppendUint32(b, 0) // persistent
	return c.send(opCreate, b)
}

func (c *rawClient) exists(path string) int32 {
	c.tb.Helper()
	return c.send(opExists, append(appendString(nil, path), 0))
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
