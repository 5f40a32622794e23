package zktest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy on loopback in front of a server. It passes ZooKeeper's
// frames whole, and makes faults when told to. A setting is in force for every
// frame that comes after the call has returned.
type Proxy struct {
	tb     testing.TB
	addr   string
	target string
	wg     sync.WaitGroup // accept loops and links

	// stream, if any, makes it pass bytes as they come, not a client's frames. It
	// sees what is sent to the target, and may change it in place.
	stream func(sent []byte)

	mu          sync.Mutex
	closed      bool
	listener    net.Listener // nil while refusing
	links       map[*link]bool
	all         gate
	replies     gate
	dropReplies bool
	dropped     int // parts of replies, so far
	resets      bool
	forgets     bool // see Forget
	delay       time.Duration
	trap        *trap // nil when there is no request to wait for
	requests    []int32
}

// AnyRequest stands for the opcode of any request but a ping.
const (
	AnyRequest int32 = -1000
	pingOpcode int32 = 11
)

// trap waits for a request with an opcode; cut closes when its connection has
// been cut.
type trap struct {
	opcode int32
	skip   int  // so many pass before
	before bool // the request itself is not passed
	refuse bool // new connections fail from then on
	cut    chan struct{}
}

// NewProxy starts a proxy in front of target ("host:port"). It ends with tb, and
// its connections with it.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return startProxy(tb, &Proxy{target: target})
}

// startProxy starts one that has its target.
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

// Addr returns the address to connect to, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections now, with what was on its way. New ones are welcome.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Reset has each cut of a later connection be a reset for the client, as when a server
// ends that has not read all.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets = true
}

// Refuse(true) makes new connections fail with "connection refused" until
// Refuse(false). Those that exist go on.
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

// Hold(true) keeps connections, also new ones, but passes nothing in either
// direction until Hold(false), which delivers all that has come meanwhile.
func (p *Proxy) Hold(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all.hold(on)
}

// HoldReplies is Hold for what the server sends.
func (p *Proxy) HoldReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies.hold(on)
}

// gate is closed while something is held back.
type gate struct {
	opened chan struct{} // closes when the gate opens; nil while it is open
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

// DropReplies(true) passes what clients send and swallows what the server sends,
// for good, until DropReplies(false).
func (p *Proxy) DropReplies(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropReplies = on
}

// CutAfterRequest waits for the next request with this opcode, passes it on, and
// when the server has answered it cuts that connection instead of delivering the
// answer: the server has done it, the client cannot know. It works once; another
// call replaces one that still waits. The returned channel closes when the
// connection is cut.
func (p *Proxy) CutAfterRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode})
}

// CutAfterSkipping is CutAfterRequest for a request that follows so many others
// with the same opcode.
func (p *Proxy) CutAfterSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip})
}

// CutBeforeRequest is CutAfterRequest, but the server does not see the request,
// nor what was sent behind it.
func (p *Proxy) CutBeforeRequest(opcode int32) <-chan struct{} {
	return p.set(&trap{opcode: opcode, before: true})
}

// CutBeforeSkipping is CutBeforeRequest for a request that follows so many others
// with the same opcode.
func (p *Proxy) CutBeforeSkipping(opcode int32, skip int) <-chan struct{} {
	return p.set(&trap{opcode: opcode, skip: skip, before: true})
}

// CutAfterAndRefuse is CutAfterSkipping. When the client learns of the cut, the proxy refuses
// new connections already, until Refuse(false).
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

// Requests takes the opcodes of the requests that have been passed since it was
// called last, connect requests excepted, in order.
func (p *Proxy) Requests() []int32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	passed := p.requests
	p.requests = nil
	return passed
}

// Delay makes every frame arrive d later, in each direction, from now on. Frames
// do not wait for one another: it is latency, not less bandwidth.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// stopListening makes new connections fail. Called with mu held.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close() // an error would leave nothing to undo
		p.listener = nil
	}
}

// accept takes clients from ln until it is closed. The caller holds mu, or is
// NewProxy.
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

// forget is a link's last word.
func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// holding returns a channel that closes when a gate opens, or nil if it is open.
func (p *Proxy) holding(g *gate) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.opened
}

// latency returns the present delay of one way.
func (p *Proxy) latency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// dropping reports whether replies are swallowed at present, as one is then.
func (p *Proxy) dropping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropReplies {
		p.dropped++
	}
	return p.dropReplies
}

// spring counts a request and returns the trap if opcode is what it waits for,
// disarmed.
func (p *Proxy) spring(opcode int32) *trap {
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
