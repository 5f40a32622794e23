package wire

import (
	"encoding/binary"
	"sync/atomic"
)

// A Tracer observes the traffic of connections. Its methods must not block, and must neither keep
// nor change the frames. They are called from several goroutines, but for each connection, Sent is
// called for a request before Received is called for the reply.
type Tracer interface {
	// Sent is called for each frame before it is written, without its length prefix. The first one on
	// a connection is the connect request, which contains the password of the session.
	Sent(k *Conn, frame []byte)
	// Received is called for each frame that was read, without its length prefix.
	Received(k *Conn, frame []byte)
	// Ended is called once, when the connection has ended.
	Ended(k *Conn, cause error)
}

// Tracing holds the Tracer of a Link, which can be replaced at any time.
type Tracing struct{ current atomic.Pointer[Tracer] }

// Set makes t the Tracer. If t is nil, nothing is traced any more.
func (tr *Tracing) Set(t Tracer) {
	if t == nil {
		tr.current.Store(nil)
	} else {
		tr.current.Store(&t)
	}
}

// tracer returns the Tracer, or nil if nothing is traced.
func (l *Link) tracer() Tracer {
	if l.cfg.Tracing == nil {
		return nil
	}
	if t := l.cfg.Tracing.current.Load(); t != nil {
		return *t
	}
	return nil
}

// traceSent shows complete frames, which have length prefixes, to the Tracer, if there is one.
func (k *Conn) traceSent(frames []byte) {
	t := k.l.tracer()
	for t != nil && len(frames) > 0 {
		end := 4 + int(binary.BigEndian.Uint32(frames))
		t.Sent(k, frames[4:end])
		frames = frames[end:]
	}
}

// traceReceived shows a frame without its length prefix to the Tracer, if there is one.
func (k *Conn) traceReceived(frame []byte) {
	if t := k.l.tracer(); t != nil {
		t.Received(k, frame)
	}
}
