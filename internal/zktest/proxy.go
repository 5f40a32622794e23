package zktest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a TCP proxy between clients and a server. It forwards data frame by frame and
// injects network faults, which its methods turn on and off. A call of a method affects every
// frame that arrives after the call has returned.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string
	wg     sync.WaitGroup // counts the goroutines of accept and of links

	// stream is called with all bytes before they are sent to the target, and may change them
	// in place. If it is not nil, the proxy does not split the data into frames.
	stream func(sent []byte)

	mu          sync.Mutex
	closed      bool
	listener    net.Listener // nil while the proxy refuses connections
	links       map[*link]bool
	all         gate // closed by Hold
	replies     gate // closed by HoldReplies
	dropReplies bool
	dropped     int  // number of dropped frames
	resetNew    bool // set by Reset
	newSessions bool // set by Forget
	delay       time.Duration
	trap        *trap   // nil if no trap is set
	requests    []int32 // opcodes of requests that Requests has not yet returned
}

// AnyRequest can be passed instead of an opcode. It means any request except a ping.
const (
	AnyRequest int32 = -1000
	pingOpcode int32 = 11
)

// A trap makes the proxy cut a connection because of a request with a given opcode.
type trap struct {
	opcode int32
	skip   int           // number of requests with the opcode that do not spring the trap
	before bool          // cut the connection before the request is forwarded, not when its reply arrives
	refuse bool          // reject new connections once the trap has been sprung
	cut    chan struct{} // closed once the connection has been cut
}

// NewProxy starts a proxy for the server at the address target ("host:port"). The proxy and its
// connections end with the test tb.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return startProxy(tb, &Proxy{target: target})
}

// startProxy starts a proxy. The caller has set its field target, and stream if it is needed.
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

// Addr returns the address of the proxy in the form "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections at once and drops delayed frames. The proxy still accepts new
// connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Reset changes how the proxy cuts connections that clients open from now on: the client gets a
// TCP reset, as if the server had exited without having read all data.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetNew = true
}

// Refuse(true) makes new connections fail with "connection refused" until Refuse(false) is
// called. Existing connections stay open.
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

// Hold(true) holds back the data in both directions until Hold(false) is called, which delivers
// them. Meanwhile, connections stay open, and the proxy accepts new ones.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.hold(on)
}

// HoldReplies is like Hold, but holds back only the data that the server sends.
func (p *Proxy) HoldReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies.hold(on)
}

// A gate is closed while the proxy holds data back, and open otherwise.
type gate struct {
	opened chan struct{} // channel that is closed when the gate opens; nil while the gate is open
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

// DropReplies(true) makes the proxy discard all data that the server sends until
// DropReplies(false) is called. The proxy still forwards requests.
func (p *Proxy) DropReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropReplies = on
}

// CutAfterRequest sets a trap for the next request with the given opcode. The proxy forwards the
// request. When the server replies, the proxy cuts the connection instead of delivering the
// reply, so the server has executed the request, but the client does not know it. The trap works
// once. It replaces an earlier trap that has not been sprung. The returned channel is closed
// once the connection has been cut.
func (p *Proxy) CutAfterRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode})
}

// CutAfterSkipping is like CutAfterRequest, but the first requests with the opcode do not spring
// the trap; skip is their number.
func (p *Proxy) CutAfterSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip})
}

// CutBeforeRequest is like CutAfterRequest, but the proxy cuts the connection before the request
// reaches the server. Later requests on the same connection do not reach the server either.
func (p *Proxy) CutBeforeRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode, before: true})
}

// CutBeforeSkipping is like CutBeforeRequest, but the first requests with the opcode do not
// spring the trap; skip is their number.
func (p *Proxy) CutBeforeSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, before: true})
}

// CutAfterAndRefuse is like CutAfterSkipping, but a sprung trap also makes the proxy refuse new
// connections until Refuse(false) is called. This begins before the connection is cut.
func (p *Proxy) CutAfterAndRefuse(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, refuse: true})
}

func (p *Proxy) set(t *trap) <-chan struct{} {
	t.cut = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = t
	return t.cut
}

// Requests returns the opcodes of the requests that have arrived since its last call, in the
// order of arrival. Connect requests have no opcode and are not included.
func (p *Proxy) Requests() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived := p.requests
	p.requests = nil
	return arrived
}

// Delay makes the proxy deliver every later frame, in both directions, after the delay d. This
// increases the latency but does not reduce the bandwidth, because frames do not wait for each
// other.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// stopListening closes the listener, so that new connections fail. The caller must hold p.mu.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close() // even after an error, the listener can no longer be used
		p.listener = nil
	}
}

// accept starts a goroutine that accepts clients from ln until ln is closed. The caller must hold
// p.mu, except for startProxy, which is still the only user of p.
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

// removeLink removes a link that has ended from p.links.
func (p *Proxy) removeLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// whenOpen returns a channel that is closed when the gate opens, or nil if the gate is open.
func (p *Proxy) whenOpen(g *gate) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.opened
}

// latency returns the current delay of a frame in either direction.
func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// dropping reports whether the proxy must drop a reply. If so, it also counts the reply in
// p.dropped.
func (p *Proxy) dropping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropReplies {
		p.dropped++
	}
	return p.dropReplies
}

// countRequest records the opcode of a request for Requests. If the request springs the trap,
// countRequest removes the trap from the proxy and returns it. Otherwise, it returns nil.
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
