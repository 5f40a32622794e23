package zkconn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// A server that has too much to do may answer a request with Throttled. It has
// surely not carried it out, so the request is sent again, on the same connection,
// after a pause that grows. That would put it behind what was sent after it: who
// needs their order must not send anything behind a request that is sent again, or
// ask for it not to be.

// The pauses before a request is sent again, of which a random part is waited for.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// pauses grow from one refusal to the next.
type pauses struct{ next time.Duration }

// wait pauses, and tells whether the request is to be sent again: not once ctx or
// the connection has ended.
func (p *pauses) wait(ctx context.Context, k *frameConn) bool {
	d := max(p.next, firstPause)
	p.next = min(2*d, maxPause)
	select {
	case <-time.After(d/2 + rand.N(d/2)):
		return true
	case <-ctx.Done():
	case <-k.alive.Done():
	}
	return false
}

// again sends a request once more that was refused with Throttled, until another
// answer comes. It gives up after a session's time.
func (p *Pending[T]) again(ctx context.Context, v T, err error) (T, error) {
	var pause pauses
	k := p.call.k
	limit := time.Now().Add(k.l.bounded(look(k.l, func() time.Duration { return k.l.timeout })))
	for p.renew != nil && errors.Is(err, Throttled) && time.Now().Before(limit) && pause.wait(ctx, k) {
		p.slowed = true
		p.call = p.renew()
		p.call.again = true
		k.send(p.call)
		v, err = p.wait(ctx)
	}
	return v, err
}

// Slowed tells of a request that has been answered whether it was refused before as
// the server had too much to do.
func (p *Pending[T]) Slowed() bool { return p.slowed }

// Some refusals are the last that a server says on a connection: it hangs up over a
// request that it does not know, and over one from whom it wants credentials of. But
// not each such refusal ends that way. What is sent meanwhile would be lost, and its
// outcome unknown, so after such an answer nothing is sent but a ping: its answer
// tells that the connection stays, else its end lets the requests go elsewhere.

// doubtful holds requests back if an answer may be the connection's last. Called with
// mu held.
func (k *frameConn) doubtful(code Code) {
	switch {
	case code != Unimplemented && code != sessionNoAuth:
		return
	case !k.doubt:
		k.doubt, k.probe = true, true
		k.flush()
	}
	k.barred = k.barred || code == sessionNoAuth
}

// refused is doubtful for who does not have mu.
func (k *frameConn) refused(code Code) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.doubtful(code)
}

// sound takes note of the answer to a ping. It is true if requests may go on with it.
// Called with mu held.
func (k *frameConn) sound() bool {
	if k.until == 0 {
		return false
	}
	if k.until--; k.until > 0 {
		return false
	}
	k.doubt = false
	k.flush()
	return true
}

// ping is the frame that asks whether the connection stays. Called with mu held.
func (k *frameConn) ping() []byte {
	k.probe = false
	k.until = len(k.pings)
	var e jute.Encoder
	e.Int(8, jute.XidPing, jute.OpPing)
	return e.B
}
