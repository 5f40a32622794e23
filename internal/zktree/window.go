package zktree

import (
	"context"
	"time"
)

// A gracePeriod is the time to wait for replies to in-flight requests after the context has ended.
type gracePeriod time.Duration

// writeGrace is the grace period of writes, whose results must be counted. Tests use a longer one.
var writeGrace = gracePeriod(time.Second)

// adjustWindow returns the size of a window after a reply. If the server was overloaded, it returns
// half the size; otherwise it returns one more, up to limit.
func adjustWindow(window, limit int, slowed bool) int {
	if slowed {
		return max(1, window/2)
	}
	return min(limit, window+1)
}

// outlive returns a context that ends one grace period after ctx, with the same cause. The caller
// must call the returned function to release that context.
func outlive(ctx context.Context, grace gracePeriod) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // this goroutine ends when the returned context ends, or earlier
		select {
		case <-time.After(time.Duration(grace)):
			cancel(context.Cause(ctx))
		case <-waiting.Done():
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}
