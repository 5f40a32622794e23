package zktest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestProxyHold(t *testing.T) {
	p := NewProxy(t, Shared(t).Addr())
	c := dialRaw(t, p.Addr())
	p.Hold(true)
	first, second := c.exists("/none"), c.exists("/none")
	late := dialOnly(t, p.Addr())
	late.sendConnect()
	c.wantNothing()
	late.wantNothing()
	p.Hold(false)
	c.wantReply(first)
	c.wantReply(second)
	if _, err := late.readFrame(10 * time.Second); err != nil {
		t.Errorf("a connection made while held: %v", err)
	}
}

func TestProxyCutAfterRequest(t *testing.T) {
	node := fmt.Sprintf("/cut-%d", time.Now().UnixNano()) // differs between runs with -count=2
	p := NewProxy(t, Shared(t).Addr())
	c, other := dialRaw(t, p.Addr()), dialRaw(t, p.Addr())
	cut := p.CutAfterRequest(opCreate)
	before := c.exists(node) // sent before the create, so it is answered
	c.create(node)
	c.exists(node)
	if code := c.wantReply(before); code != errNoNode {
		t.Errorf("exists: code %d, want %d", code, errNoNode)
	}
	c.wantCut()
	select {
	case <-cut:
	case <-time.After(10 * time.Second):
		t.Fatal("the channel stays open")
	}
	if code := other.wantReply(other.exists(node)); code != 0 {
		t.Errorf("exists: code %d; the request did not pass", code)
	}
	other.wantReply(other.create(node + "-once")) // the trap works only once
}

func TestProxyCutAfterSkipping(t *testing.T) {
	p := NewProxy(t, Shared(t).Addr())
	c := dialRaw(t, p.Addr())
	cut := p.CutAfterSkipping(opExists, 2)
	for range 2 {
		c.wantReply(c.exists("/none"))
	}
	c.exists("/none")
	c.wantCut()
	<-cut
	if passed := p.Requests(); !slices.Equal(passed, []int32{opExists, opExists, opExists}) {
		t.Errorf("passed %v", passed)
	}
	if passed := p.Requests(); len(passed) > 0 {
		t.Errorf("passed again %v", passed)
	}
}

func TestProxyCutBeforeRequest(t *testing.T) {
	node := fmt.Sprintf("/before-%d", time.Now().UnixNano())
	p := NewProxy(t, Shared(t).Addr())
	c := dialRaw(t, p.Addr())
	cut := p.CutBeforeRequest(opCreate)
	c.wantReply(c.exists(node))
	c.create(node)
	c.wantCut()
	<-cut
	other := dialRaw(t, p.Addr())
	if code := other.wantReply(other.exists(node)); code != errNoNode {
		t.Errorf("exists: code %d; the request passed", code)
	}
}

func TestProxyHoldReplies(t *testing.T) {
	node := fmt.Sprintf("/held-%d", time.Now().UnixNano())
	server := Shared(t).Addr()
	p := NewProxy(t, server)
	c, direct := dialRaw(t, p.Addr()), dialRaw(t, server)
	p.HoldReplies(true)
	created := c.create(node)
	for end := time.Now().Add(10 * time.Second); direct.wantReply(direct.exists(node)) != 0; {
		if time.Now().After(end) {
			t.Fatal("the request does not arrive")
		}
	}
	c.wantNothing()
	p.HoldReplies(false)
	c.wantReply(created)
}

// Frames that are sent together are delayed together, not one after the other.
func TestProxyDelay(t *testing.T) {
	const delay, frames = 200 * time.Millisecond, 100
	p := NewProxy(t, Shared(t).Addr())
	c := dialRaw(t, p.Addr())
	p.Delay(delay)
	begin := time.Now()
	for range frames {
		c.exists("/none")
	}
	for xid := range int32(frames) {
		c.wantReply(xid + 1)
	}
	if took := time.Since(begin); took < 2*delay || took > frames*delay {
		t.Errorf("took %s, want a little more than %s", took, 2*delay)
	}
}

func TestProxyClosesBothSides(t *testing.T) {
	target := serve(t, func(c net.Conn) { writeString(c, "bye") })
	p := NewProxy(t, target)
	c := dialOnly(t, p.Addr())
	c.write([]byte{0, 0, 0, 9, 1, 2}) // an incomplete frame
	Must(t, c.conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(c.conn)
	if string(got) != "bye" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	nobody := NewProxy(t, Refused(t))
	dialOnly(t, nobody.Addr()).wantCut()
}

// Settings can be changed while data flow, and frames stay complete and in order.
func TestProxyUnderLoad(t *testing.T) {
	echo, err := listen()
	Must(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer echo.Close()
	wg.Go(func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // until the client closes
			})
		}
	})
	p := NewProxy(t, echo.Addr().String())
	c := dialOnly(t, p.Addr())
	defer c.conn.Close()
	body := bytes.Repeat([]byte("0123456789"), 3000)
	wg.Go(func() {
		for i := range 200 {
			p.Hold(i%3 == 0)
			p.Delay(time.Duration(i%2) * time.Millisecond)
		}
		p.Hold(false)
	})
	const frames = 100
	wg.Go(func() {
		for range frames {
			c.send(opGetData, body)
		}
	})
	for i := range frames {
		frame, err := c.readFrame(10 * time.Second)
		if err != nil || !bytes.Equal(frame[8:], body) {
			t.Fatalf("frame %d: %d bytes, %v", i, len(frame), err)
		}
	}
}
