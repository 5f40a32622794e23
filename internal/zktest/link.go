package zktest

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxFrame is larger than any frame of ZooKeeper, in bytes, and smaller than any
	// four-letter command read as a length.
	maxFrame = 64 << 20
	// queueLength is the maximum number of delayed frames in one direction.
	queueLength = 4096
)

// A link is a client's connection to the proxy and the corresponding connection to the
// server.
type link struct {
	p          *Proxy
	client     *net.TCPConn
	ctx        context.Context // canceled when the link is cut
	cancel     context.CancelFunc
	resetOnCut bool // cutting resets the client's connection

	mu      sync.Mutex
	server  *net.TCPConn // nil until connected
	trap    *trap        // trap that a request of this link has sprung, or nil
	trapXid int32        // xid of that request
}

// newLink must be called with the proxy's mu held.
func newLink(p *Proxy, client *net.TCPConn) *link {
	l := &link{p: p, client: client, resetOnCut: p.resetNew}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run forwards data until both directions have ended or the link is cut.
func (l *link) run() {
	defer l.p.removeLink(l)
	defer l.cut()
	conn := l.dial()
	if conn == nil {
		return // closes the client's connection
	}
	server := conn.(*net.TCPConn)
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		return // cut has not seen this connection; the deferred cut closes it
	}
	var wg sync.WaitGroup
	l.forward(&wg, l.client, server, l.checkRequest)
	l.forward(&wg, server, l.client, l.checkReply)
	wg.Wait()
	if t := l.sprungTrap(); t != nil {
		close(t.cut)
	}
}

// dial connects to the target, or returns nil. Between the members of an ensemble
// (p.stream is set) it retries for a while: a member whose connection is refused retries
// soon, but one whose connection is accepted and then closed takes the leader for dead.
func (l *link) dial() net.Conn {
	const limit = 5 * time.Second
	d := net.Dialer{Timeout: limit}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		conn, err := d.DialContext(l.ctx, "tcp", l.p.target)
		if err == nil {
			return conn
		}
		if l.p.stream == nil || l.ctx.Err() != nil {
			break
		}
	}
	return nil
}

// cut closes both connections, which ends all reads and writes on them.
func (l *link) cut() {
	l.cancel()
	if l.resetOnCut {
		_ = l.client.SetLinger(0) // fails only if the connection is already closed
	}
	_ = l.client.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// sprungTrap returns the trap that a request of this link has sprung, or nil.
func (l *link) sprungTrap() *trap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trap
}

// A chunk is a frame to forward, or bytes outside any frame.
type chunk struct {
	bytes  []byte
	header []byte    // bytes after the length, if this is a complete frame but not the first; else nil
	due    time.Time // earliest time to deliver it
}

// forward copies the chunks for which check returns true from src to dst. Its two
// goroutines end when src is closed or the link is cut.
func (l *link) forward(wg *sync.WaitGroup, src, dst *net.TCPConn, check func(chunk) bool) {
	queue := make(chan chunk, queueLength)
	wg.Go(func() {
		defer close(queue)
		in := chunkReader{r: bufio.NewReader(src), unframed: l.p.stream != nil}
		for {
			p, err := in.next()
			p.due = time.Now().Add(l.p.latency())
			if len(p.bytes) > 0 {
				select {
				case queue <- p:
				case <-l.ctx.Done():
					return
				}
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return
			}
			if err != nil {
				l.cut()
				return
			}
		}
	})
	wg.Go(func() {
		for p := range queue {
			if !l.wait(p.due) {
				return
			}
			if !check(p) {
				continue
			}
			if _, err := dst.Write(p.bytes); err != nil {
				l.cut()
				return
			}
		}
		// src has closed its direction; dst may still send.
		if l.wait(time.Now().Add(l.p.latency())) {
			_ = dst.CloseWrite() // fails only if dst is closed too
		}
	})
}

// wait waits until a chunk with the given due time may be delivered. It returns false if
// the link has been cut.
func (l *link) wait(due time.Time) bool {
	if d := time.Until(due); d > 0 {
		select {
		case <-time.After(d):
		case <-l.ctx.Done():
		}
	}
	return l.waitOpen(&l.p.all)
}

// waitOpen waits until a gate is open. It returns false if the link has been cut.
func (l *link) waitOpen(g *gate) bool {
	for held := l.p.whenOpen(g); held != nil; held = l.p.whenOpen(g) {
		select {
		case <-held:
		case <-l.ctx.Done():
			return false
		}
	}
	return l.ctx.Err() == nil
}

// checkRequest checks whether a request springs the proxy's trap. It returns false for a
// request that must not reach the server.
func (l *link) checkRequest(p chunk) bool {
	if l.p.stream != nil {
		l.p.stream(p.bytes)
	}
	if p.header == nil {
		l.p.clearSession(p.bytes)
	}
	if len(p.header) < 8 || l.sprungTrap() != nil {
		return true
	}
	if t := l.p.countRequest(int32(binary.BigEndian.Uint32(p.header[4:]))); t != nil {
		l.mu.Lock()
		l.trap, l.trapXid = t, int32(binary.BigEndian.Uint32(p.header))
		l.mu.Unlock()
		if t.before {
			l.cut()
			return false
		}
	}
	return true
}

// checkReply cuts the link when the reply to the request that sprang the trap arrives. It
// returns false for a reply that must not reach the client.
func (l *link) checkReply(p chunk) bool {
	l.mu.Lock()
	cut := l.trap != nil && len(p.header) >= 4 && int32(binary.BigEndian.Uint32(p.header)) == l.trapXid
	l.mu.Unlock()
	if cut {
		l.cut()
		return false
	}
	return l.waitOpen(&l.p.replies) && !l.p.dropping()
}

// A chunkReader splits a stream into frames. From a length above maxFrame on (a four-letter
// command or another protocol) it returns bytes as they arrive.
type chunkReader struct {
	r         *bufio.Reader
	connected bool // the first frame, which has no header, has been read
	unframed  bool // bytes are returned as they arrive
}

// next returns the next chunk. With an error, it also returns the bytes that were read
// before the error.
func (in *chunkReader) next() (chunk, error) {
	if in.unframed {
		buf := make([]byte, 32<<10)
		n, err := in.r.Read(buf)
		return chunk{bytes: buf[:n]}, err
	}
	length, err := in.r.Peek(4)
	if err != nil {
		return chunk{bytes: append([]byte(nil), length...)}, err
	}
	size := binary.BigEndian.Uint32(length)
	if size > maxFrame {
		in.unframed = true
		return in.next()
	}
	frame := make([]byte, 4+size)
	n, err := io.ReadFull(in.r, frame)
	if err != nil {
		return chunk{bytes: frame[:n]}, err
	}
	p := chunk{bytes: frame}
	if in.connected {
		p.header = frame[4:]
	}
	in.connected = true
	return p, nil
}
