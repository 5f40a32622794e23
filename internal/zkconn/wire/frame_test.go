package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// frameOf returns body with its length in front.
func frameOf(body ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// connectReply returns a reply that accepts session 1.
func connectReply() []byte {
	var e jute.Encoder
	e.Int(0)
	e.Int(10000)
	e.Long(1)
	e.Buffer(make([]byte, 16))
	e.Bool(false)
	return frameOf(e.B...)
}

// replyTo returns a reply to the n-th request.
func replyTo(n int32, body ...byte) []byte {
	var e jute.Encoder
	e.Int(xidBase + n)
	e.Long(7)
	e.Int(0)
	return frameOf(append(e.B, body...)...)
}

// FuzzFrame reads arbitrary bytes from a server. Reading must not panic, hang, or allocate
// memory only because a length claims so. Afterwards every request has ended.
func FuzzFrame(f *testing.F) {
	good := connectReply()
	f.Add([]byte{})
	f.Add(good)
	f.Add([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add(slices.Concat(good, []byte{0x0f, 0xff, 0xff, 0xff}))             // a claim of 256 MiB
	f.Add(slices.Concat(good, []byte{0xff, 0xff, 0xff, 0xff}))             // one of 4 GiB
	f.Add(slices.Concat(good, replyTo(0, 0x7f, 0xff, 0xff, 0xff)))         // two billion names
	f.Add(slices.Concat(good, replyTo(99)))                                // reply to a request that was never sent
	f.Add(slices.Concat(good, replyTo(1), replyTo(0)))                     // replies in the wrong order
	f.Add(slices.Concat(good, frameOf(1, 2, 3)))                           // truncated header
	f.Add(slices.Concat(good, frameOf(make([]byte, 16)...)))               // reply to a request that the library never sent
	f.Add(slices.Concat(good, frameOf(255, 255, 255, 255, 0, 0, 0, 0)))    // half an event
	f.Add(frameOf(make([]byte, 40)...))                                    // an expired session
	f.Add(slices.Concat(good, replyTo(2, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0)))  // multiRead
	f.Add(slices.Concat(good, replyTo(3, 255, 255, 255, 255, 0, 0, 0, 0))) // multi
	f.Fuzz(func(t *testing.T, sent []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		readAll(t, sent)
		runtime.ReadMemStats(&after)
		// room allows for the buffers of the reader and the pipe, and for one step of a frame's
		// growth.
		const room = 4 << 20
		if took := after.TotalAlloc - before.TotalAlloc; took > room+64*uint64(len(sent)) {
			t.Fatalf("%d bytes allocated for %d received", took, len(sent))
		}
	})
}

// readAll plays the library's part on a connection on which sent arrives.
func readAll(t *testing.T, sent []byte) {
	client, server := net.Pipe()
	defer client.Close()
	go func() { // ends when the client closes
		defer server.Close()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		_, _ = server.Write(sent)
	}()
	l := New(Config{Timeout: time.Second, Memory: new(Memory), Refusal: refusal}, quiet{})
	defer l.cancel()
	k := newConn(client, "fuzz", l)
	requests := []*Request{{Op: jute.OpGetChildren, Several: 2}, {Op: jute.OpMultiRead, Newer: jute.OpMultiRead}, {Op: jute.OpMulti}, {Op: jute.OpDelete}}
	ended := make(chan Reply, len(requests))
	for _, r := range requests {
		r.Context, r.Frames = t.Context(), bytes.Repeat(frameOf(make([]byte, 8)...), max(1, r.Several))
		r.End = func(reply Reply) { ended <- reply }
	}
	k.Send(requests...)
	buf := make([]byte, 1000)
	for {
		if _, err := (socket{client, k}).Read(buf); err != nil {
			break
		}
	}
	k.Close()
	late := time.After(10 * time.Second)
	for i := range requests {
		select {
		case <-ended:
		case <-late:
			t.Fatalf("%d requests have not ended", len(requests)-i)
		}
	}
	select {
	case r := <-ended:
		t.Fatalf("a request has ended twice: %+v", r)
	default:
	}
}

func refusal(code int32) error { return fmt.Errorf("code %d", code) }

// quiet ignores all reports of a Link.
type quiet struct{}

func (quiet) Connected(*Conn, int64) []*Request { return nil }
func (quiet) Disconnected()                     {}
func (quiet) Expired()                          {}
func (quiet) Failed(Ending)                     {}
func (quiet) Unreachable([]Attempt)             {}
func (quiet) Event(int32, string, int64) error  { return nil }
func (quiet) HungUp(int32, string, error) bool  { return false }
func (quiet) Passed(int32)                      {}
func (quiet) Relies() bool                      { return false }

// FuzzVersion parses arbitrary answers to srvr.
func FuzzVersion(f *testing.F) {
	f.Add("Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC\n")
	f.Add("ClickHouse Keeper version: v24.3.1-")
	f.Add("Zookeeper version: 99999999999999999999.1")
	f.Fuzz(func(t *testing.T, answer string) {
		if v := parseVersion(answer); v.Major < 0 || v.Minor < 0 || v.AtLeast(7) && !v.AtLeast(6) {
			t.Errorf("%q: %+v", answer, v)
		}
	})
}
