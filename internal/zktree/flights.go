package zktree

import (
	"context"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// A gracePeriod is the time to wait for replies to in-flight requests after the context has ended.
type gracePeriod time.Duration

const noGrace gracePeriod = 0 // grace period for reads, whose results are not needed after the context has ended

var writeGrace = gracePeriod(time.Second) // grace period for writes, whose results must be counted; tests use a longer one

// flights is a queue of requests in flight on a zkconn.Pipe. A J describes one request, and a T is
// its result. flights handles the replies, including rejections, in the order of the requests. If
// the server is overloaded, it halves the maximum number of requests in flight.
type flights[J, T any] struct {
	ctx     context.Context // context of the pipe, which sends no more requests after the context has ended
	waiting context.Context // context for waiting for replies; ends a grace period after ctx
	close   func()          // releases the context waiting
	limit   int             // maximum value of the field window
	window  int             // current maximum number of requests in flight
	slowed  bool            // whether a request was sent again, and later requests overtook it
	handle  func(J, T, error) error
	onLost  func(J, zkconn.Outcome) // called for each request with an unknown outcome; may be nil
	queue   []flight[J, T]
}

type flight[J, T any] struct {
	job   J
	reply *zkconn.Pending[T]
}

// newFlights returns flights without any requests. handle is called with the reply to each request
// that is added. The caller must call close.
func newFlights[J, T any](ctx context.Context, grace gracePeriod, window int, handle func(J, T, error) error) *flights[J, T] {
	waiting, done := outlive(ctx, grace)
	return &flights[J, T]{ctx: ctx, waiting: waiting, close: done, limit: window, window: window, handle: handle}
}

// add adds a request. If the window is full, add first waits for earlier replies and handles them.
// It fails if the outcome of a request is unknown, or if handle returns an error.
func (f *flights[J, T]) add(job J, reply *zkconn.Pending[T]) error {
	f.queue = append(f.queue, flight[J, T]{job, reply})
	return f.drainTo(f.window - 1)
}

// drain waits for the replies to all requests in flight, and handles them.
func (f *flights[J, T]) drain() error { return f.drainTo(0) }

// drainTo waits for replies and handles them, until at most limit requests are in flight.
func (f *flights[J, T]) drainTo(limit int) error {
	for len(f.queue) > limit {
		first := f.queue[0]
		f.queue = f.queue[1:]
		v, refusal, outcome, err := f.wait(first.reply)
		if err != nil {
			f.abandon(first.job, outcome)
			return interrupted(f.ctx, err)
		}
		if err := f.handle(first.job, v, refusal); err != nil {
			f.abandonRest()
			return err
		}
		limit = min(limit, f.window-1)
	}
	return nil
}

// abandon gives up after a request whose outcome is unknown. It reports that outcome, and the
// outcomes of the requests after it, to onLost.
func (f *flights[J, T]) abandon(job J, outcome zkconn.Outcome) {
	if f.onLost != nil {
		f.onLost(job, outcome)
	}
	f.abandonRest()
}

// abandonRest gives up on the requests that are still in flight. It handles the successful replies
// that still arrive, and ignores rejections.
func (f *flights[J, T]) abandonRest() {
	rest := f.queue
	f.queue = nil
	for _, next := range rest {
		if f.onLost == nil {
			return
		}
		v, refusal, outcome, err := f.wait(next.reply)
		switch {
		case err != nil:
			f.onLost(next.job, outcome)
		case refusal == nil:
			_ = f.handle(next.job, v, nil) // ignore the error, because handle only counts the success
		}
	}
}

// wait waits for a reply. refusal is set if the server rejected the request, which then had no
// effect. err is set if the outcome of the request is unknown.
func (f *flights[J, T]) wait(reply *zkconn.Pending[T]) (v T, refusal error, outcome zkconn.Outcome, err error) {
	v, err = reply.Wait(f.waiting)
	f.window = adjustWindow(f.window, f.limit, reply.Slowed())
	f.slowed = f.slowed || reply.Slowed()
	outcome = reply.Outcome()
	if err != nil && reply.Answered() && outcome.Rejected > 0 {
		return v, err, outcome, nil
	}
	return v, nil, outcome, err
}

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
