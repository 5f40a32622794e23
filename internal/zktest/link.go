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
	// longestFrame is above any frame that a ZooKeeper sends, and below what any
	// four letters are when read as a length.
	longestFrame = 64 << 20
	// queueLength is how many frames may be on their way in one direction.
	queueLength = 4096
)

// link is one client's connection and the one to the server it stands for.
type link struct {
	p      *Proxy
	client *net.TCPConn
	ctx    context.Context // ends when the link is cut
	cancel context.CancelFunc
	reset  bool // when it is cut

	mu      sync.Mutex
	server  *net.TCPConn // nil until there is one
	trap    *trap        // sprung; nil if none
	trapXid int32        // of the request that sprang it
}

// newLink is called with the proxy's mu held.
func newLink(p *Proxy, client *net.TCPConn) *link {
	l := &link{p: p, client: client, reset: p.resets}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run serves the link until both directions have ended or it is cut.
func (l *link) run() {
	defer l.p.forget(l)
	defer l.cut()
	conn := l.dial()
	if conn == nil {
		return // the client sees its connection closed
	}
	server := conn.(*net.TCPConn)
	l.mu.Lock()
	l.server = server
	l.mu.Unlock()
	if l.ctx.Err() != nil {
		return // cut before it had this connection to close
	}
	var wg sync.WaitGroup
	l.pass(&wg, l.client, server, l.checkRequest)
	l.pass(&wg, server, l.client, l.checkReply)
	wg.Wait()
	if t := l.sprung(); t != nil {
		close(t.cut)
	}
}

// dial connects to the target, or returns nil. A member of an ensemble that is
// refused tries again soon, but one that a proxy let in would take an end for the
// leader's; so the proxy tries again itself.
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

// cut closes both connections, which wakes whoever reads or writes them.
func (l *link) cut() {
	l.cancel()
	if l.reset {
		_ = l.client.SetLinger(0) // one that is closed needs none
	}
	_ = l.client.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// sprung returns the trap that a request of this link has sprung, or nil.
func (l *link) sprung() *trap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trap
}

// parcel is a frame on its way, or bytes outside any frame.
type parcel struct {
	bytes  []byte
	header []byte // what follows the length, in a whole frame after the first
	due    time.Time
}

// pass carries parcels from src to dst, those for which check is true, with two
// goroutines that end with src or with the link.
func (l *link) pass(wg *sync.WaitGroup, src, dst *net.TCPConn, check func(parcel) bool) {
	queue := make(chan parcel, queueLength)
	wg.Go(func() {
		defer close(queue)
		in := parcelReader{r: bufio.NewReader(src), unframed: l.p.stream != nil}
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
		// src has said all it had to say; dst may still be speaking.
		if l.wait(time.Now().Add(l.p.latency())) {
			_ = dst.CloseWrite() // fails only if dst is gone, too
		}
	})
}

// wait returns true when a parcel due at a time may be delivered, false when the
// link has been cut.
func (l *link) wait(due time.Time) bool {
	if d := time.Until(due); d > 0 {
		select {
		case <-time.After(d):
		case <-l.ctx.Done():
		}
	}
	return l.passes(&l.p.all)
}

// passes waits for a gate to open, and reports whether the link still stands.
func (l *link) passes(g *gate) bool {
	for held := l.p.holding(g); held != nil; held = l.p.holding(g) {
		select {
		case <-held:
		case <-l.ctx.Done():
			return false
		}
	}
	return l.ctx.Err() == nil
}

// checkRequest looks for the request that a trap waits for, and passes all but
// one that must not arrive.
func (l *link) checkRequest(p parcel) bool {
	if l.p.stream != nil {
		l.p.stream(p.bytes)
	}
	if p.header == nil {
		l.p.forgetSession(p.bytes)
	}
	if len(p.header) < 8 || l.sprung() != nil {
		return true
	}
	if t := l.p.spring(int32(binary.BigEndian.Uint32(p.header[4:]))); t != nil {
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

// checkReply cuts the link at the reply that was waited for, and otherwise
// passes what is not to be dropped.
func (l *link) checkReply(p parcel) bool {
	l.mu.Lock()
	cut := l.trap != nil && len(p.header) >= 4 && int32(binary.BigEndian.Uint32(p.header)) == l.trapXid
	l.mu.Unlock()
	if cut {
		l.cut()
		return false
	}
	return l.passes(&l.p.replies) && !l.p.dropping()
}

// parcelReader takes a stream apart into frames. Once it meets a length that no
// frame has (a four letter word, another protocol) it takes bytes as they come.
type parcelReader struct {
	r         *bufio.Reader
	connected bool // the first frame, which has no header, has been read
	unframed  bool
}

// next returns what comes next, which with an error may be the begin of a frame.
func (in *parcelReader) next() (parcel, error) {
	if in.unframed {
		buf := make([]byte, 32<<10)
		n, err := in.r.Read(buf)
		return parcel{bytes: buf[:n]}, err
	}
	length, err := in.r.Peek(4)
	if err != nil {
		return parcel{bytes: append([]byte(nil), length...)}, err
	}
	size := binary.BigEndian.Uint32(length)
	if size > longestFrame {
		in.unframed = true
		return in.next()
	}
	frame := make([]byte, 4+size)
	n, err := io.ReadFull(in.r, frame)
	if err != nil {
		return parcel{bytes: frame[:n]}, err
	}
	p := parcel{bytes: frame}
	if in.connected {
		p.header = frame[4:]
	}
	in.connected = true
	return p, nil
}
