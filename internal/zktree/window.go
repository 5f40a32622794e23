package zktree

import (
	"context"
	"time"
)

// writeGrace is the time to wait for the replies to writes in flight after the context has ended, so
// that their results can be counted. Tests use a longer one.
var writeGrace = time.Second

// adjustWindow returns the size of a window after a reply. If the server was overloaded, it returns
// half the size; otherwise it returns one more, up to limit.
func adjustWindow(window, limit int, slowed bool) int {
	if slowed {
		return max(1, window/2)
	}
	return min(limit, window+1)
}

// outlive returns a context that ends one writeGrace after ctx, with the same cause. The caller must
// call the returned function to release that context.
func outlive(ctx context.Context) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // this goroutine ends when the returned context ends, or earlier
		select {
		case <-time.After(writeGrace):
			cancel(context.Cause(ctx))
		case <-waiting.Done():
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}
