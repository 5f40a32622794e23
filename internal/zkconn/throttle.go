package zkconn

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// An overloaded server may answer a request with the code Throttled, which means that it did not
// carry out the request. zksh then sends the request again on the same connection, after a pause
// that grows from one try to the next. The repeated request comes after those that were sent in
// the meantime. Callers that need to preserve the order must wait for the answer before they send
// more, or use a Trip, which prevents repetition.

// Shortest and longest pause before a throttled request is sent again. zksh waits for a random
// time between half the pause and the whole pause.
const (
	firstPause = 5 * time.Millisecond
	maxPause   = time.Second
)

// pauses contains the length of the next pause before a throttled request is sent again. Each pause
// is twice as long as the previous one, up to maxPause.
type pauses struct{ next time.Duration }

// wait waits for the next pause, and reports whether to send the request again. It returns false if
// ctx or the connection k has ended meanwhile.
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
