package zktest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy is a TCP proxy on loopback in front of a server. It forwards complete frames of
// ZooKeeper's protocol, and injects the faults that its methods set. A setting applies to
// every frame that arrives after the call has returned.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string
	wg     sync.WaitGroup // accept loops and links

	// stream is called with the bytes sent to the target, and may change them in place. If it
	// is not nil, the proxy forwards bytes as they arrive instead of frames.
	stream func(sent []byte)

	mu          sync.Mutex
	closed      bool
	listener    net.Listener // nil while refusing
	links       map[*link]bool
	all         gate
	replies     gate
	dropReplies bool
	dropped     int // number of dropped frames
	resetNew    bool
	newSessions bool // see Forget
	delay       time.Duration
	trap        *trap // nil if none is set
	requests    []int32
}

// AnyRequest stands for the opcode of any request except a ping.
const (
	AnyRequest int32 = -1000
	pingOpcode int32 = 11
)

// A trap cuts the connection of a request with a given opcode.
type trap struct {
	opcode int32
	skip   int           // number of such requests to forward first
	before bool          // cut before the request is forwarded, not at its reply
	refuse bool          // reject new connections from then on
	cut    chan struct{} // closed once the connection is cut
}

// NewProxy starts a proxy in front of target ("host:port"). The proxy and its connections
// end with tb.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return startProxy(tb, &Proxy{target: target})
}

// startProxy starts a proxy whose target, and stream if needed, are set.
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

// Addr returns the address of the proxy as "127.0.0.1:port".
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

// Reset makes every cut of a later connection a TCP reset for the client, as when a server
// exits that has not read all data.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetNew = true
}

// Refuse(true) makes new connections fail with "connection refused" until Refuse(false).
// Existing connections stay open.
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

// Hold(true) stops forwarding in both directions until Hold(false), which delivers the data
// that have arrived meanwhile. Connections stay open, and new ones are accepted.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.hold(on)
}

// HoldReplies is Hold for the direction from the server to the client only.
func (p *Proxy) HoldReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies.hold(on)
}

// A gate is closed while data are held.
type gate struct {
	opened chan struct{} // closed when the gate opens; nil while it is open
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

// DropReplies(true) drops all data that the server sends until DropReplies(false). Requests
// are still forwarded.
func (p *Proxy) DropReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropReplies = on
}

// CutAfterRequest sets a trap for the next request with this opcode. The proxy forwards the
// request and, when the server answers, cuts the connection instead of delivering the reply:
// the server has executed the request, but the client does not know it. The trap works once;
// a new trap replaces one that has not been sprung. The returned channel is closed when the
// connection is cut.
func (p *Proxy) CutAfterRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode})
}

// CutAfterSkipping is CutAfterRequest, but first forwards skip requests with this opcode.
func (p *Proxy) CutAfterSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip})
}

// CutBeforeRequest is like CutAfterRequest, but cuts the connection before the request
// reaches the server. Later requests on the connection do not reach it either.
func (p *Proxy) CutBeforeRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode, before: true})
}

// CutBeforeSkipping is CutBeforeRequest, but first forwards skip requests with this opcode.
func (p *Proxy) CutBeforeSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, before: true})
}

// CutAfterAndRefuse is CutAfterSkipping, but also rejects new connections until
// Refuse(false). It does so before the connection is cut.
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

// Requests returns the opcodes of the requests that arrived since it was last called, in
// order, without connect requests.
func (p *Proxy) Requests() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.requests
	p.requests = nil
	return passed
}

// Delay delays every frame by d in each direction from now on. It adds latency and does not
// reduce bandwidth: frames do not wait for one another.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// stopListening makes new connections fail. It must be called with mu held.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close() // an error changes nothing: the listener is unusable
		p.listener = nil
	}
}

// accept starts accepting clients from ln until it is closed. The caller holds mu, or is
// startProxy.
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

// removeLink removes a link that has ended.
func (p *Proxy) removeLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// whenOpen returns a channel that is closed when the gate opens, or nil if it is open.
func (p *Proxy) whenOpen(g *gate) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.opened
}

// latency returns the current delay of one direction.
func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// dropping reports whether a reply must be dropped, and counts it if so.
func (p *Proxy) dropping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropReplies {
		p.dropped++
	}
	return p.dropReplies
}

// countRequest records a request. If it springs the trap, countRequest removes the trap
// from the proxy and returns it.
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
