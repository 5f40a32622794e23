package zkconn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
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

// wait pauses, and reports whether the request is to be sent again: not once ctx or
// the connection has ended.
func (p *pauses) wait(ctx context.Context, k *wire.Conn) bool {
	d := max(p.next, firstPause)
	p.next = min(2*d, maxPause)
	select {
	case <-time.After(d/2 + rand.N(d/2)):
		return true
	case <-ctx.Done():
	case <-k.Dead():
	}
	return false
}

// again sends a request once more that was refused with Throttled, until another
// answer comes. It gives up after a session's time.
func (p *Pending[T]) again(ctx context.Context, v T, err error) (T, error) {
	var pause pauses
	to := p.call.to
	limit := time.Now().Add(to.l.wire.Status().Patience)
	for p.renew != nil && errors.Is(err, Throttled) && time.Now().Before(limit) && pause.wait(ctx, to.Conn) {
		p.slowed = true
		p.call = p.renew()
		p.call.Held = wire.HeldAlways
		to.send(p.call)
		v, err = p.wait(ctx)
	}
	return v, err
}

// Slowed tells of a request that has been answered whether it was refused before as
// the server had too much to do.
func (p *Pending[T]) Slowed() bool { return p.slowed }
