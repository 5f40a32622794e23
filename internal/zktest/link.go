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
	// maxFrame is the maximum length of a frame that the proxy recognizes, in bytes.
	// ZooKeeper's frames are shorter. The first bytes of a four-letter command, read as a
	// length, form a larger number.
	maxFrame = 64 << 20
	// queueLength is the maximum number of delayed frames in each direction of a link.
	queueLength = 4096
)

// A link connects one client of the proxy to the server. It consists of the client's connection
// to the proxy, and of the proxy's connection to the server.
type link struct {
	p          *Proxy
	client     *net.TCPConn
	ctx        context.Context // canceled by cut
	cancel     context.CancelFunc
	resetOnCut bool // whether cut sends a TCP reset to the client

	mu      sync.Mutex
	server  *net.TCPConn // connection to the server, or nil before it is established
	trap    *trap        // trap that a request of this client has sprung, or nil if there is none
	trapXid int32        // xid of the request that sprang the trap
}

// newLink returns a link for a client that has connected to the proxy p. The caller must hold
// p.mu.
func newLink(p *Proxy, client *net.TCPConn) *link {
	l := &link{p: p, client: client, resetOnCut: p.resetNew}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run forwards data in both directions. It returns when both sides have stopped sending, or when
// the link is cut.
func (l *link) run() {
	defer l.p.removeLink(l)
	defer l.cut()
	conn := l.dial()
	if conn == nil {
		return // the deferred call of cut closes the client's connection
	}
	server := conn.(*net.TCPConn)
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		// The link was cut before l.server was set, so the deferred Close closes the connection to
		// the server.
		return
	}
	var wg sync.WaitGroup
	l.forward(&wg, l.client, server, l.checkRequest)
	l.forward(&wg, server, l.client, l.checkReply)
	wg.Wait()
	if t := l.sprungTrap(); t != nil {
		close(t.cut)
	}
}

// dial connects to the proxy's target, or returns nil if that fails.
//
// Between members of an ensemble (if p.stream is set), dial retries for up to 5 s, because the
// proxy has already accepted the member's connection. If the proxy closed that connection, the
// member would assume that the leader is dead.
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

// cut closes both connections of the link. All reads and writes on them then fail.
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

// sprungTrap returns the trap that a request of this client has sprung, or nil if there is none.
func (l *link) sprungTrap() *trap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trap
}

// A chunk is a piece of data to forward: either a frame, or bytes that are not part of any frame.
type chunk struct {
	bytes []byte
	// header contains the frame without its length field. It is nil if the chunk is not a complete
	// frame, or if it is the first frame of the connection.
	header []byte
	due    time.Time // earliest time at which the chunk may be forwarded
}

// forward copies data from src to dst, without the chunks that accept rejects by returning false.
// It starts two goroutines, which end when src is closed or the link is cut.
func (l *link) forward(wg *sync.WaitGroup, src, dst *net.TCPConn, accept func(chunk) bool) {
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
			if !accept(p) {
				continue
			}
			if _, err := dst.Write(p.bytes); err != nil {
				l.cut()
				return
			}
		}
		// The sender has closed its side of the connection, but it can still receive data.
		if l.wait(time.Now().Add(l.p.latency())) {
			_ = dst.CloseWrite() // fails only if dst is already closed
		}
	})
}

// wait waits until the time due, and then until the proxy no longer holds data back. It returns
// false if the link has been cut.
func (l *link) wait(due time.Time) bool {
	if d := time.Until(due); d > 0 {
		select {
		case <-time.After(d):
		case <-l.ctx.Done():
		}
	}
	return l.waitOpen(&l.p.all)
}

// waitOpen waits until the gate g is open. It returns false if the link has been cut.
func (l *link) waitOpen(g *gate) bool {
	for opened := l.p.whenOpen(g); opened != nil; opened = l.p.whenOpen(g) {
		select {
		case <-opened:
		case <-l.ctx.Done():
			return false
		}
	}
	return l.ctx.Err() == nil
}

// checkRequest checks whether the chunk p from the client is a request that springs the proxy's
// trap. It returns false if p must not reach the server.
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
		if t.do != nil {
			t.do()
			return true
		}
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

// checkReply checks whether the chunk p from the server is the reply to the request that sprang the
// trap. If so, it cuts the link. It returns false if p must not reach the client.
func (l *link) checkReply(p chunk) bool {
	l.mu.Lock()
	cut := l.trap != nil && len(p.header) >= 4 && int32(binary.BigEndian.Uint32(p.header)) == l.trapXid
	l.mu.Unlock()
	if cut {
		l.cut()
		return false
	}
	return l.waitOpen(&l.p.replies)
}

// A chunkReader splits a stream into frames. If the length of a frame seems to exceed maxFrame, the
// stream is a four-letter command or another protocol. In this case, the chunkReader returns the
// remaining bytes as they arrive.
type chunkReader struct {
	r *bufio.Reader
	// connected means that the first frame has been read: a connect request, or the reply to one.
	connected bool
	unframed  bool // whether to return bytes as they arrive instead of frames
}

// next returns the next chunk of the stream. If it returns an error, the chunk contains the bytes
// that were read before the error.
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
