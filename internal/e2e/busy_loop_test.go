//go:build unix

package e2e

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
)

// A refuser is a server that answers each request with the same error and keeps the connection
// open.
type refuser struct {
	net.Listener
	code     int32
	requests atomic.Int32
	sessions atomic.Int32
}

func newRefuser(t *testing.T, code int32) *refuser {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &refuser{Listener: ln, code: code}
	var serving sync.WaitGroup
	t.Cleanup(func() { ln.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { r.serve(c) }) // ends when the client disconnects
		}
	})
	return r
}

func (r *refuser) serve(c net.Conn) {
	defer c.Close()
	for n := 0; ; n++ {
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		e, d := jute.Encoder{}, jute.NewDecoder(body)
		if n == 0 {
			e.Int(0, 20000)
			e.Long(int64(r.sessions.Add(1)))
			e.Buffer(make([]byte, 16))
			e.Bool(false)
		} else {
			xid, op := d.Int(), d.Int()
			e.Int(xid)
			e.Long(1)
			if op == jute.OpPing || op == jute.OpCloseSession {
				e.Int(0)
			} else {
				r.requests.Add(1)
				e.Int(r.code)
			}
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(e.B))), e.B...)); err != nil {
			return
		}
	}
}

// If a server answers that the connection is lost or the session has expired, but keeps the
// connection open, zksh does not repeat its requests in a busy loop.
func TestNoBusyLoopOnErrors(t *testing.T) {
	t.Parallel()
	for _, code := range []int32{-4, -112} {
		for _, command := range [][]string{{"wait", "-w", "3s", "/spin"}, {"lock", "-w", "3s", "/spin", "--", "true"}} {
			t.Run(fmt.Sprintf("%s %d", command[0], code), func(t *testing.T) {
				t.Parallel()
				r := newRefuser(t, code)
				got := runProgram(t, "", append([]string{"-server", r.Addr().String(), "-timeout", "20000"}, command...)...)
				if got.status == commands.StatusOK {
					t.Errorf("%+v", got)
				}
				if requests := r.requests.Load(); requests == 0 || requests > 100 {
					t.Errorf("asked %d times in 3 s, in %d sessions: %+v", requests, r.sessions.Load(), got)
				}
				t.Logf("asked %d times in %d sessions: %+v", r.requests.Load(), r.sessions.Load(), got)
			})
		}
	}
}
