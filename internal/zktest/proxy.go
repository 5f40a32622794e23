package zktest

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a TCP proxy between clients and a server. It forwards data frame by frame and
// injects network faults, which its methods turn on and off. A fault affects all frames that
// arrive after the method has returned.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string
	wg     sync.WaitGroup // counts the goroutines of the listener and of all links

	// stream is called with all bytes before they are sent to the target, and may change them in
	// place. If stream is not nil, the proxy does not split the data into frames.
	stream func(sent []byte)

	mu          sync.Mutex
	closed      bool
	listener    net.Listener // listener for clients, or nil while the proxy refuses connections
	links       map[*link]bool
	all         gate // closed by Hold, for both directions
	replies     gate // closed by HoldReplies, for data from the server
	resetNew    bool // whether Reset was called
	newSessions bool // whether Forget was called
	delay       time.Duration
	trap        *trap   // trap that the next matching request springs, or nil if there is none
	armed       *trap   // trap that was set last, also after it was sprung, until Disarm; or nil
	requests    []int32 // opcodes of the requests that the method Requests has not yet returned
}

// AnyRequest can be passed in place of an opcode. It matches any request except a ping.
const (
	AnyRequest int32 = -1000
	pingOpcode int32 = 11
)

// A trap makes the proxy cut a connection at a request with a certain opcode.
type trap struct {
	opcode int32
	skip   int           // number of matching requests to ignore before the trap is sprung
	before bool          // whether to cut before the request is forwarded, instead of when its reply arrives
	refuse bool          // whether to refuse new connections once the trap has been sprung
	do     func()        // called before the request is forwarded, instead of cutting the connection; nil to cut it
	cut    chan struct{} // closed once the connection has been cut
}

// NewProxy starts a proxy for the server at the address target, such as "127.0.0.1:2181". The
// proxy ends with the test tb.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return startProxy(tb, &Proxy{target: target})
}

// startProxy starts the proxy p. The caller must have set p.target, and may have set p.stream.
func startProxy(tb testing.TB, p *Proxy) *Proxy {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: proxy: %v", err)
	}
	p.tb, p.addr, p.links = tb, ln.Addr().String(), map[*link]bool{}
	p.accept(ln)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the address at which clients reach the proxy, in the form "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections at once and discards delayed frames. Clients can connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Reset makes the proxy send a TCP reset to a client when it cuts the client's connection, as if
// the server had exited before it read all data. It affects only connections that clients open
// after the call.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetNew = true
}

// Refuse(true) makes the proxy refuse new connections until Refuse(false) is called. Existing
// connections stay open.
func (p *Proxy) Refuse(on bool) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || on == (p.listener == nil) {
		return
	}
	if on {
		p.stopListening()
		return
	}
	ln, err := listenAgain(p.addr)
	if err != nil {
		p.tb.Errorf("zktest: proxy: %v", err)
		return
	}
	p.accept(ln)
}

// Hold(true) makes the proxy hold back all data in both directions. Connections stay open, and
// clients can open new ones. Hold(false) delivers the data.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.hold(on)
}

// HoldReplies is like Hold, but the proxy holds back only data from the server.
func (p *Proxy) HoldReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies.hold(on)
}

// A gate holds data back while it is closed. The zero gate is open.
type gate struct {
	// opened is a channel that is closed to open the gate. It is nil while the gate is open.
	opened chan struct{}
}

func (g *gate) hold(on bool) {
	switch {
	case on && g.opened == nil:
		g.opened = make(chan struct{})
	case !on && g.opened != nil:
		close(g.opened)
		g.opened = nil
	}
}

// CutAfterRequest sets a trap for the next request with the given opcode. The proxy forwards the
// request, but cuts the connection when the reply arrives. The server has then executed the
// request, but the client does not know that.
//
// The trap replaces any earlier one, and works only once. The returned channel is closed once the
// connection has been cut.
func (p *Proxy) CutAfterRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode})
}

// CutAfterSkipping is like CutAfterRequest, but ignores the first skip requests with the opcode.
func (p *Proxy) CutAfterSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip})
}

// CutBeforeRequest is like CutAfterRequest, but cuts the connection before the request reaches
// the server. Later requests on the connection do not reach the server either.
func (p *Proxy) CutBeforeRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode, before: true})
}

// CutBeforeSkipping is like CutBeforeRequest, but ignores the first skip requests with the
// opcode.
func (p *Proxy) CutBeforeSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, before: true})
}

// CutAfterAndRefuse is like CutAfterSkipping. In addition, before it cuts the connection, the
// proxy begins to refuse new ones, until Refuse(false) is called.
func (p *Proxy) CutAfterAndRefuse(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, refuse: true})
}

// CallBefore calls do before it forwards a request with the given opcode to the server. It ignores
// the first skip requests with the opcode. It replaces any trap, and works only once.
func (p *Proxy) CallBefore(opcode int32, skip int, do func()) {
	p.set(&trap{opcode: opcode, skip: skip, do: do})
}

func (p *Proxy) set(t *trap) <-chan struct{} {
	t.cut = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.armed = t, t
	return t.cut
}

// Disarm removes the trap that one of the Cut methods has set last. It reports whether a request has
// sprung the trap. If so, it returns when the connection has been cut.
func (p *Proxy) Disarm() (sprung bool) {
	p.mu.Lock()
	t := p.armed
	sprung = t != nil && p.trap == nil
	p.trap, p.armed = nil, nil
	p.mu.Unlock()
	if sprung {
		<-t.cut
	}
	return sprung
}

// Requests returns the opcodes of all requests that have arrived since the last call of Requests.
// It does not include connect requests, which have no opcode.
func (p *Proxy) Requests() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived := p.requests
	p.requests = nil
	return arrived
}

// Delay makes the proxy deliver each frame, in either direction, after the delay d. The delays of
// several frames overlap, so the bandwidth is not reduced.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// stopListening closes the listener, so that clients cannot connect. The caller must hold p.mu.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close() // even after an error, the listener is closed
		p.listener = nil
	}
}

// accept starts a goroutine that accepts clients from ln until ln is closed. The caller must hold
// p.mu, unless p is not in use yet.
func (p *Proxy) accept(ln net.Listener) {
	p.listener = ln
	p.wg.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			if p.closed {
				_ = client.Close()
			} else {
				l := newLink(p, client.(*net.TCPConn))
				p.links[l] = true
				p.wg.Go(l.run)
			}
			p.mu.Unlock()
		}
	})
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// removeLink forgets a link that has ended.
func (p *Proxy) removeLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// whenOpen returns a channel that is closed when the closed gate g opens. If g is already open, it
// returns nil.
func (p *Proxy) whenOpen(g *gate) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.opened
}

// latency returns the time by which the proxy currently delays each frame.
func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// countRequest records the opcode of a request that has arrived. If the request springs the trap,
// countRequest removes and returns the trap. Otherwise, it returns nil.
func (p *Proxy) countRequest(opcode int32) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, opcode)
	t := p.trap
	if t == nil || t.opcode != opcode && (t.opcode != AnyRequest || opcode == pingOpcode) {
		return nil
	}
	if t.skip--; t.skip >= 0 {
		return nil
	}
	p.trap = nil
	if t.refuse {
		p.stopListening()
	}
	return t
}

// Forget makes the proxy change all later connect requests so that they ask for a new session. A
// client that reconnects then gets a new session, and its old session expires after its timeout.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newSessions = true
}

// Position of the session id in a connect request. It follows the length of the frame, the
// protocol version, the zxid and the timeout.
const (
	sessionIDStart = 4 + 4 + 8 + 4
	sessionIDEnd   = sessionIDStart + 8
)

// clearSession sets the session id in a connect request to 0 if Forget has been called. first
// contains the first bytes from a client. If they are not a complete frame, clearSession does not
// change them, because they may be a four-letter command.
func (p *Proxy) clearSession(first []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.newSessions && len(first) >= sessionIDEnd && int(binary.BigEndian.Uint32(first)) == len(first)-4 {
		clear(first[sessionIDStart:sessionIDEnd])
	}
}
