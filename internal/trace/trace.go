// Package trace shows the traffic of a session: one line of text for each request that zksh sends,
// each reply, and each watch event, as it happens. A trace never contains credentials, ACLs or the
// data of znodes.
//
// Begin reading at Recorder.Sent and Recorder.Received.
package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Limits of the lines that wait to be written: their number, and their memory in bytes. Further
// lines are lost.
const (
	maxWaiting = 4096
	maxMemory  = 4 << 20
)

// A Recorder observes a session. It never delays the session: a separate goroutine writes the
// lines, and lines for which there is no room are counted and then dropped.
type Recorder struct {
	start time.Time
	write func(string) error

	lines chan waitingLine
	done  chan struct{} // closed when the last line has been written
	err   error         // first error from write; may be read only after done is closed

	mu       sync.Mutex
	closed   bool
	awaiting map[key]call // requests without a reply
	secured  *wire.Conn   // connection whose TLS parameters a line has shown, if it has any
	identity *wire.Conn   // connection whose identity a line has shown
	lost     int          // number of lost lines
	unsaid   int          // number of lost lines that no line has reported yet
	blocked  bool         // whether no line has been written since Settle last gave up
	memory   int          // size of the lines that wait to be written, in bytes
}

var _ zkconn.Tracer = (*Recorder)(nil)

// A waitingLine is a line that waits to be written, or a mark between two lines.
type waitingLine struct {
	text    string
	reached chan struct{} // closed when the writer reaches this mark; nil if this is a line
}

// size estimates the memory of the line, in bytes.
func (l waitingLine) size() int { return 64 + len(l.text) }

// A key identifies a request. Pings, which all have the same xid, are not awaited.
type key struct {
	conn *wire.Conn
	xid  int32
}

// New returns a Recorder that calls write for each line, in one goroutine. A line has no newline at
// its end. The caller must call Close at the end.
func New(write func(line string) error) *Recorder {
	r := &Recorder{
		start: time.Now(), write: write,
		lines: make(chan waitingLine, maxWaiting), done: make(chan struct{}), awaiting: map[key]call{},
	}
	go r.writeLines() // ends when Close is called
	return r
}

// writeLines writes the lines until Close is called. At the end, it reports the lost lines that no
// line has reported yet.
func (r *Recorder) writeLines() {
	defer close(r.done)
	for l := range r.lines {
		if l.reached != nil {
			close(l.reached)
			continue
		}
		if r.err == nil {
			r.err = r.write(l.text)
		}
		r.mu.Lock()
		r.memory -= l.size()
		r.blocked = false
		r.mu.Unlock()
	}
	r.mu.Lock()
	missing := r.unsaid
	r.mu.Unlock()
	if missing > 0 && r.err == nil {
		r.err = r.write(lostLines(missing).text(time.Since(r.start)))
	}
}

// Close waits until all lines have been written or ctx ends. It returns the number of lost lines and
// the first error from writing. From then on, r ignores the session.
func (r *Recorder) Close(ctx context.Context) (lost int, err error) {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.lines)
	}
	lost = r.lost
	r.mu.Unlock()
	select {
	case <-r.done:
		return lost, r.err
	case <-ctx.Done():
		return lost, errors.New("the trace is incomplete, because its output is blocked")
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
	r.lines <- waitingLine{reached: reached} // does not block, because the queue has room
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
func (r *Recorder) Sent(k *wire.Conn, frame []byte) {
	c, xid, l := request(frame)
	switch c.op {
	case jute.OpPing:
		return
	case opConnect:
		l.add("server=%s", k.Server)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.sent = time.Since(r.start)
	r.putSecurity(k, c.sent)
	r.awaiting[key{k, xid}] = c
	r.put(l, c.sent)
}

// putSecurity queues a line about the TLS parameters of a connection before its first request, and
// one about the identity of the client before its first request after the login with Kerberos. The
// caller must hold mu.
func (r *Recorder) putSecurity(k *wire.Conn, at time.Duration) {
	if r.secured != k && k.Agreed != nil {
		r.secured = k
		r.put(line{sign: "!", name: "secured", facts: []string{k.Agreed.String()}}, at)
	}
	if r.identity != k && k.Identity != nil {
		r.identity = k
		r.put(line{sign: "!", name: "secured", facts: []string{k.Identity.String()}}, at)
	}
}

// Received implements wire.Tracer.
func (r *Recorder) Received(k *wire.Conn, frame []byte) {
	d := jute.NewDecoder(frame)
	xid, zxid := d.Int(), d.Long()
	d.Int() // the error code
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.start)
	id := key{k, xid}
	if _, connecting := r.awaiting[key{k, 0}]; connecting { // the first reply on a connection has no xid
		id.xid = 0
	}
	c, awaited := r.awaiting[id]
	switch {
	case awaited:
		delete(r.awaiting, id)
		r.put(c.reply(frame, now-c.sent), now)
	case xid == jute.XidPing:
	case xid == jute.XidEvent:
		r.put(event(d, zxid), now)
	case xid == 0: // the connect request was sent before the trace began
		r.put(call{op: opConnect}.reply(frame, 0), now)
	default: // the request was sent before the trace began
		r.put(call{op: opUnknown}.reply(frame, 0), now)
	}
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
	l := line{sign: "!", name: "disconnected"}
	l.add("server=%s", k.Server)
	if !errors.Is(cause, io.ErrClosedPipe) { // otherwise, zksh has closed the connection
		l.add("reason=%q", cause.Error())
	}
	l.add("unanswered=%d", unanswered)
	r.put(l, time.Since(r.start))
}

// put queues a line, or counts it as lost if too many lines wait. at is the time since the trace
// began. The caller must hold mu.
func (r *Recorder) put(l line, at time.Duration) {
	if r.closed {
		return
	}
	if r.unsaid > 0 && len(r.lines) < maxWaiting/2 && r.memory < maxMemory/2 {
		r.queue(waitingLine{text: lostLines(r.unsaid).text(at)})
		r.unsaid = 0
	}
	next := waitingLine{text: l.text(at)}
	if len(r.lines) == maxWaiting || r.memory+next.size() > maxMemory {
		r.unsaid++
		r.lost++
		return
	}
	r.queue(next)
}

// queue queues a line for which there is room. The caller must hold mu.
func (r *Recorder) queue(l waitingLine) {
	r.memory += l.size()
	r.lines <- l // does not block: the queue has room, and all senders hold mu
}

// A File is a Recorder that writes its lines to a file.
type File struct {
	*Recorder
	f *os.File
}

// ToFile returns a File that writes to the file with the given name, after what the file contains.
func ToFile(name string) (*File, error) {
	f, err := userfile.OpenToWrite(name, os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	write := func(line string) error {
		_, err := fmt.Fprintln(f, line)
		return err
	}
	return &File{New(write), f}, nil
}

// closeLimit is how long File.Close tries to write the remaining lines.
const closeLimit = 3 * time.Second

// Close writes the remaining lines and closes the file. It returns an error if lines are missing.
func (f *File) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	lost, err := f.Recorder.Close(ctx)
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d lines are missing in %s, because they could not be written fast enough",
			lost, f.f.Name()))
	}
	return errors.Join(err, f.f.Close())
}
