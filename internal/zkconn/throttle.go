package zkconn

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// An overloaded server may answer a request with Throttled. It did not carry out the request,
// so zksh sends it again on the same connection, after a pause that grows. The request then
// comes after those that were sent in the meantime. Callers that need the order must not send
// anything after a request that may be sent again, or prevent that by a Trip.

// Bounds of the pause before a request is sent again. A random part of it is waited for.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// pauses are the growing pauses between one refusal and the next.
type pauses struct{ next time.Duration }

// wait pauses, and reports whether to send the request again. It returns false once ctx or the
// connection has ended.
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
