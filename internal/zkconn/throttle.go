package zkconn

import (
	"context"
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
