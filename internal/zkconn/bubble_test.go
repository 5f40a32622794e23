package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// sessionTimeout is the session timeout in a bubble, where waiting takes no real time.
const sessionTimeout = 30 * time.Second

// These constants equal those of package wire.
const (
	xidBase     = 0x40000000
	rejecting   = 42
	tooSoon     = time.Second
	shortPause  = 200 * time.Millisecond
	longPause   = time.Second
	pauseJitter = shortPause / 2
)

// ended closes a link and returns a channel that is closed when the link has ended.
func ended(l *link) <-chan struct{} {
	_, ended := l.wire.Close()
	return ended
}

// frameOf returns body with its length in front.
func frameOf(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// bubble runs a test in virtual time with a session. The function serve plays the server of each
// connection; n counts the connections from 0.
func bubble(t *testing.T, serve func(n int, p *remote), test func(t *testing.T, s *Session)) {
	t.Helper()
	bubbleWith(t, Config{Servers: "127.0.0.1:1"}, serve, test)
}

func bubbleWith(t *testing.T, cfg Config, serve func(n int, p *remote), test func(t *testing.T, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Timeout = sessionTimeout
		n := -1
		if cfg.dial == nil {
			cfg.dial = func(context.Context, string, string) (net.Conn, error) {
				n++
				return pipeTo(n, serve), nil
			}
		}
		s, err := Open(cfg)
		zktest.Must(t, err)
		defer func() {
			if err := s.Close(t.Context()); err != nil {
				t.Errorf("close: %v", err)
			}
			<-ended(s.current()) // must end while the bubble's clock still runs
		}()
		test(t, s)
	})
}

// pipeTo returns a connection whose server is played by serve.
func pipeTo(n int, serve func(n int, p *remote)) net.Conn {
	client, server := net.Pipe()
	go func() { // ends when serve does, which ends when the connection is closed
		p := &remote{Conn: server}
		serve(n, p)
		if !p.kept {
			server.Close()
		}
	}()
	return &pipeEnd{Conn: client}
}

// A pipeEnd reports a hang-up with the same error as a network connection.
type pipeEnd struct {
	net.Conn
	cut atomic.Bool // writes fail; data that the server sent before can still be read
}

func (c *pipeEnd) Write(p []byte) (n int, err error) {
	if !c.cut.Load() {
		if n, err = c.Conn.Write(p); !errors.Is(err, io.ErrClosedPipe) {
			return n, err
		}
	}
	return n, &net.OpError{Op: "write", Err: syscall.ECONNRESET}
}

// A remote is the server's end of a connection. Its methods return false once the connection is
// closed.
type remote struct {
	net.Conn
	kept bool // the connection stays open when serve returns
}

// body reads a frame and returns its body. It never answers a four-letter command, whose letters
// would be the length of a frame of more than a gigabyte.
func (p *remote) body() ([]byte, bool) {
	var head [4]byte
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return nil, false
	}
	length := jute.NewDecoder(head[:]).Int()
	if length > 1<<30 {
		_, _ = io.Copy(io.Discard, p) // fails only when the client closes the connection
		return nil, false
	}
	body := make([]byte, length)
	_, err := io.ReadFull(p, body)
	return body, err == nil
}

// request reads a request and returns its xid and opcode.
func (p *remote) request() (xid, op int32, ok bool) {
	body, ok := p.body()
	d := jute.NewDecoder(body)
	return d.Int(), d.Int(), ok
}

// secret is the session password of every session.
var secret = []byte("open sesame open")

// greet reads the connect request and accepts the session.
func (p *remote) greet(id int64, timeout int32) bool {
	_, ok := p.body()
	return ok && p.welcome(id, timeout, false)
}

func (p *remote) welcome(id int64, timeout int32, readOnly bool) bool {
	return p.connectReply(0, id, timeout, readOnly)
}

// answerConnect is like greet, with a given protocol version.
func (p *remote) answerConnect(version int32, id int64, timeout int32) bool {
	_, ok := p.body()
	return ok && p.connectReply(version, id, timeout, false)
}

func (p *remote) connectReply(version int32, id int64, timeout int32, readOnly bool) bool {
	var e jute.Encoder
	e.Int(version)
	e.Int(timeout)
	e.Long(id)
	e.Buffer(secret)
	e.Bool(readOnly)
	return p.frame(e.B)
}

func (p *remote) frame(body []byte) bool {
	_, err := p.Write(frameOf(body...))
	return err == nil
}

func (p *remote) reply(xid int32, code Code) bool {
	var e jute.Encoder
	e.Int(xid)
	e.Long(1)
	e.Int(int32(code))
	e.B = append(e.B, make([]byte, 100)...) // zeros decode as any kind of record
	return p.frame(e.B)
}

// host serves connections: it confirms pings and other requests of the library, and passes all
// other requests to answer.
func (p *remote) host(answer func(xid, op int32) bool) {
	for p.greeted() {
		for {
			xid, op, ok := p.request()
			switch {
			case !ok:
				return
			case xid < xidBase:
				ok = p.reply(xid, codeOK)
			default:
				ok = answer(xid, op)
			}
			if !ok {
				return
			}
		}
	}
}

func (p *remote) greeted() bool { return p.greet(1, int32(sessionTimeout.Milliseconds())) }

// limited returns a context that expires long after anything should have happened, so that a
// hanging test fails.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*sessionTimeout)
	t.Cleanup(cancel)
	return ctx
}

// withMutedServer runs a test with a server that accepts the session and then reads nothing until
// the test calls hangUp.
func withMutedServer(t *testing.T, test func(t *testing.T, s *Session, hangUp func() error)) {
	var end atomic.Pointer[remote]
	serve := func(n int, p *remote) {
		end.Store(p)
		if n == 0 && p.greeted() {
			p.kept = true
		}
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		zktest.Must(t, s.Ready(testContext(t)))
		p := end.Load()
		defer p.Close()
		test(t, s, p.Close)
	})
}
