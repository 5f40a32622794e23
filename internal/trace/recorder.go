// Package trace shows the traffic of a session: each request that zksh sends, each reply, and each
// watch event, as it happens. A Recorder observes a zkconn.Session and writes a Line for each of
// them. It never shows credentials, and the data of znodes only if the user asks for that.
//
// Begin reading at Recorder.Sent and Recorder.Received.
package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Options contains what a trace shows in addition to the usual.
type Options struct {
	Data  bool // show the beginning of the data of znodes
	Pings bool // show pings
}

// Totals counts what a Recorder has seen.
type Totals struct{ Requests, Replies, Events, Pings, Lost int }

// Limits of the lines that wait to be written: their number, and their memory in bytes. Further
// lines are lost.
const (
	maxWaiting = 4096
	maxMemory  = 4 << 20
)

// A Recorder observes a session. It never delays the session: a separate goroutine writes the
// lines, and lines for which there is no room are counted and then dropped.
type Recorder struct {
	opts  Options
	start time.Time
	write func(Line) error

	lines chan Line
	done  chan struct{} // closed when the last line has been written
	err   error         // first error from write; may be read only after done is closed

	mu       sync.Mutex
	closed   bool
	awaiting map[key]call // requests without a reply
	totals   Totals
	unsaid   int  // number of lost lines that no Lost line has reported yet
	blocked  bool // whether no line has been written since Settle last gave up
	memory   int  // size of the lines that wait to be written, in bytes
}

var _ zkconn.Tracer = (*Recorder)(nil)

// A key identifies a request. Pings, which all have the same xid, are not awaited.
type key struct {
	conn *wire.Conn
	xid  int32
}

// New returns a Recorder that calls write for each Line, in one goroutine. The caller must call
// Close at the end.
func New(opts Options, write func(Line) error) *Recorder {
	r := &Recorder{opts: opts, start: time.Now(), write: write, lines: make(chan Line, maxWaiting), done: make(chan struct{}), awaiting: map[key]call{}}
	go func() { // ends when Close is called
		defer close(r.done)
		for l := range r.lines {
			if l.reached != nil {
				close(l.reached)
				continue
			}
			if r.err == nil {
				r.err = write(l)
			}
			r.mu.Lock()
			r.memory -= l.size()
			r.blocked = false
			r.mu.Unlock()
		}
	}()
	return r
}

// Close waits until all lines have been written or ctx ends, and returns the first error from
// writing them. From then on, r ignores the session.
func (r *Recorder) Close(ctx context.Context) (Totals, error) {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.lines)
	}
	totals := r.totals
	r.mu.Unlock()
	select {
	case <-r.done:
		return totals, r.err
	case <-ctx.Done():
		return totals, errors.New("the trace is incomplete, because its output is blocked")
	}
}

// Settle waits until the lines so far have been written, or the time limit has passed. After that,
// further calls return at once until another line has been written.
func (r *Recorder) Settle(limit time.Duration) {
	r.mu.Lock()
	if r.memory == 0 || r.blocked || r.closed || len(r.lines) == maxWaiting {
		r.mu.Unlock()
		return
	}
	reached := make(chan struct{})
	r.lines <- Line{reached: reached} // does not block, because the queue has room
	r.mu.Unlock()
	select {
	case <-reached:
	case <-time.After(limit):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.blocked = true
	}
}

// Sent implements wire.Tracer.
func (r *Recorder) Sent(k *wire.Conn, frames []byte) {
	eachFrame(frames, func(frame []byte) {
		c, l := r.request(frame)
		if l.Op == opName(opConnect) {
			l.add("server", k.Server)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		c.sent = time.Since(r.start)
		l.Time = c.sent
		if c.op == jute.OpPing {
			r.totals.Pings++
			if !r.opts.Pings {
				return
			}
		} else {
			r.awaiting[key{k, l.Xid}] = c
			r.totals.Requests++
		}
		r.put(l)
	})
}

// Received implements wire.Tracer.
func (r *Recorder) Received(k *wire.Conn, frame []byte) {
	d := jute.NewDecoder(frame)
	xid, zxid := d.Int(), d.Long()
	d.Int() // the error code
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	if c, ok := r.awaiting[key{k, 0}]; ok { // the first reply on a connection
		delete(r.awaiting, key{k, 0})
		r.putReply(c, frame, now)
		return
	}
	c, awaited := r.awaiting[key{k, xid}]
	switch {
	case xid == jute.XidEvent:
		l := event(d, zxid)
		l.Time = now
		r.totals.Events++
		r.put(l)
	case xid == jute.XidPing && r.opts.Pings:
		r.putReply(call{op: jute.OpPing, sent: now}, frame, now)
	case awaited:
		delete(r.awaiting, key{k, xid})
		r.putReply(c, frame, now)
	case xid != jute.XidPing: // the request was sent before the trace began
		r.putReply(call{op: opUnknown, sent: now}, frame, now)
	}
}

// putReply adds the line for the reply to c. The caller must hold mu.
func (r *Recorder) putReply(c call, frame []byte, now time.Duration) {
	l := r.reply(c, frame)
	l.Time, l.Took = now, now-c.sent
	if c.op != jute.OpPing {
		r.totals.Replies++
	}
	r.put(l)
}

// Ended implements wire.Tracer.
func (r *Recorder) Ended(k *wire.Conn, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unanswered := 0
	for id := range r.awaiting {
		if id.conn == k {
			unanswered++
			delete(r.awaiting, id)
		}
	}
	l := Line{Kind: Connection, Time: time.Since(r.start), Op: "disconnected"}
	l.add("server", k.Server)
	if !errors.Is(cause, io.ErrClosedPipe) { // zksh has closed the connection
		l.add("reason", cause.Error())
	}
	l.add("unanswered", unanswered)
	r.put(l)
}

// put queues a line, or counts it as lost if too many lines wait. The caller must hold mu.
func (r *Recorder) put(l Line) {
	if r.closed {
		return
	}
	if r.unsaid > 0 && len(r.lines) < maxWaiting/2 && r.memory < maxMemory/2 {
		missing := Line{Kind: Lost, Time: l.Time, Op: "lost"}
		missing.add("lines", r.unsaid)
		r.unsaid = 0
		r.memory += missing.size()
		r.lines <- missing // does not block, because put is the only sender and the queue has room
	}
	if size := l.size(); len(r.lines) < maxWaiting && r.memory+size <= maxMemory {
		r.memory += size
		r.lines <- l // does not block either
		return
	}
	r.unsaid++
	r.totals.Lost++
}

// String returns the totals as text.
func (t Totals) String() string {
	return fmt.Sprintf("requests=%d replies=%d events=%d pings=%d lost=%d", t.Requests, t.Replies, t.Events, t.Pings, t.Lost)
}
