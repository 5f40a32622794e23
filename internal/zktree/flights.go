package zktree

import (
	"context"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// A gracePeriod is how long answers to requests in flight are awaited after the context has ended.
type gracePeriod time.Duration

const noGrace gracePeriod = 0 // for reads, whose answers are not needed any more

var writeGrace = gracePeriod(time.Second) // for writes, which have to be counted; tests make it longer

// flights keeps a window of requests in flight on a pipe and handles their answers in order,
// rejections included. The window is halved when the server is overloaded.
type flights[J, T any] struct {
	ctx     context.Context // context of the pipe; once it has ended, the pipe sends nothing more
	waiting context.Context // context for waiting; it ends a grace period after ctx
	close   func()          // releases waiting
	limit   int             // maximum of window
	window  int             // number of requests that may be in flight now
	slowed  bool            // a request was repeated, so that later requests overtook it
	handle  func(J, T, error) error
	onLost  func(J, zkconn.Outcome) // called for a job without a conclusive answer; nil if the caller does not count these
	queue   []flight[J, T]
}

type flight[J, T any] struct {
	job   J
	reply *zkconn.Pending[T]
}

// newFlights returns an empty window. The caller must call close.
func newFlights[J, T any](ctx context.Context, late gracePeriod, window int, take func(J, T, error) error) *flights[J, T] {
	waiting, done := outlive(ctx, late)
	return &flights[J, T]{ctx: ctx, waiting: waiting, close: done, limit: window, window: window, handle: take}
}

// add adds a request to the window. If the window is full, it first waits for older answers and
// handles them. It fails when a request gets no conclusive answer, or when handle fails.
func (f *flights[J, T]) add(job J, reply *zkconn.Pending[T]) error {
	f.queue = append(f.queue, flight[J, T]{job, reply})
	return f.drainTo(f.window - 1)
}

// drain waits for all outstanding answers and handles them.
func (f *flights[J, T]) drain() error { return f.drainTo(0) }

// drainTo waits for answers and handles them until at most left are outstanding.
func (f *flights[J, T]) drainTo(left int) error {
	for len(f.queue) > left {
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
		left = min(left, f.window-1)
	}
	return nil
}

// abandon ends the window after job got no conclusive answer. Later requests may still get one;
// they are counted.
func (f *flights[J, T]) abandon(job J, outcome zkconn.Outcome) {
	if f.onLost != nil {
		f.onLost(job, outcome)
	}
	f.abandonRest()
}

// abandonRest ends the window and counts the outstanding requests. Rejections do not matter any
// more.
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
			_ = f.handle(next.job, v, nil) // it only counts a success
		}
	}
}

// wait waits for an answer. refusal is an error with which the server reports that the request
// had no effect. Any other error is err: the answer is not conclusive.
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

// adjustWindow returns the size of a window after an answer: half if the server was overloaded,
// else one more, up to most.
func adjustWindow(window, most int, slowed bool) int {
	if slowed {
		return max(1, window/2)
	}
	return min(most, window+1)
}

// outlive returns a context that ends the grace period late after ctx, with the same cause. The
// returned function releases it.
func outlive(ctx context.Context, late gracePeriod) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // its goroutine ends with waiting at the latest
		select {
		case <-time.After(time.Duration(late)):
			cancel(context.Cause(ctx))
		case <-waiting.Done():
		}
	})
	return waiting, func() {
		stop()
		cancel(nil)
	}
}
