package zkconn

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"time"
)

// dial connects for the library, with our own deadline for all that comes before
// the session is there.
func (l *link) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if err := l.rest(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(l.hosts.attempt(l.asked))
	d := net.Dialer{Deadline: deadline}
	c, err := d.DialContext(l.ctx, network, addr)
	if err != nil {
		l.attemptFailed(addr, plainCause(err))
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, err
	}
	k := newFrameConn(c, addr, l)
	k.unbind = context.AfterFunc(l.ctx, func() { c.Close() }) // until the session is there
	return k, nil
}

// The pauses before connecting again to servers that answer without a session.
const (
	firstRest = 100 * time.Millisecond
	longRest  = 5 * time.Second
)

// rest waits before dialing while servers go on answering without a session: not
// after the first such answer, which is an expiry, then longer each time.
func (l *link) rest() error {
	l.mu.Lock()
	again := l.refusals - 2
	l.mu.Unlock()
	if again < 0 {
		return nil
	}
	select {
	case <-time.After(min(firstRest<<min(again, 10), longRest)):
		return nil
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

func (l *link) attemptFailed(addr string, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = slices.DeleteFunc(l.attempts, func(a AttemptError) bool { return a.Addr == addr })
	l.attempts = append(l.attempts, AttemptError{addr, cause})
}

func (l *link) passFailed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes++
	l.failed, l.attempts = l.attempts, nil
	l.notify()
}

// connectRequest completes the library's: the highest zxid seen by either of us,
// and the read-only wish, which it does not know.
func (l *link) connectRequest(p []byte) []byte {
	l.mu.Lock()
	zxid := l.lastZxid
	l.helloSent = time.Now()
	l.mu.Unlock()
	q := append([]byte(nil), p...)
	// frame length, protocol version int32, lastZxidSeen int64, timeout int32, …
	if uint64(zxid) > binary.BigEndian.Uint64(q[8:]) {
		binary.BigEndian.PutUint64(q[8:], uint64(zxid))
	}
	ro := byte(0)
	if l.readOnly {
		ro = 1
	}
	q = append(q, ro)
	binary.BigEndian.PutUint32(q, uint32(len(q)-4))
	return q
}

// refusedBy words a connect reply that is an error. Such a server is often one
// that lost its quorum, and takes read-only clients alone.
func (l *link) refusedBy(code Code) error {
	if code == NotReadOnly && !l.readOnly {
		return fmt.Errorf("refused the session: %w; it is read-only now, which -r accepts", code)
	}
	return fmt.Errorf("refused the session: %w", code)
}
