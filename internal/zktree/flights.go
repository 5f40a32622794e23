package zktree

import (
	"context"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// A gracePeriod is how long to wait for the answers to in-flight requests after the context has
// ended.
type gracePeriod time.Duration

const noGrace gracePeriod = 0 // for reads, whose answers are no longer needed

var writeGrace = gracePeriod(time.Second) // for writes, whose results must be counted; tests use a longer period

// flights keeps several requests in flight on a pipe. It handles their answers, rejections
// included, in the order of the requests. It halves its window if the server is overloaded.
type flights[J, T any] struct {
	ctx     context.Context // context of the pipe; once it has ended, the pipe sends nothing more
	waiting context.Context // context for waiting; it ends a grace period after ctx
	close   func()          // releases the context in the field waiting
	limit   int             // maximum of window
	window  int             // number of requests that may be in flight now
	slowed  bool            // a request was repeated, so that later requests overtook it
	handle  func(J, T, error) error
	onLost  func(J, zkconn.Outcome) // called for each job without a conclusive answer; nil if the caller counts none
	queue   []flight[J, T]
}

type flight[J, T any] struct {
	job   J
	reply *zkconn.Pending[T]
}

// newFlights returns flights without requests. It calls handle for each answer. The caller must
// call close.
func newFlights[J, T any](ctx context.Context, grace gracePeriod, window int, handle func(J, T, error) error) *flights[J, T] {
	waiting, done := outlive(ctx, grace)
	return &flights[J, T]{ctx: ctx, waiting: waiting, close: done, limit: window, window: window, handle: handle}
}

// add adds a request to the window. If the window is full, it first waits for older answers and
// handles them. It fails when a request gets no conclusive answer, or when handle fails.
func (f *flights[J, T]) add(job J, reply *zkconn.Pending[T]) error {
	f.queue = append(f.queue, flight[J, T]{job, reply})
	return f.drainTo(f.window - 1)
}

// drain waits for all outstanding answers and handles them.
func (f *flights[J, T]) drain() error { return f.drainTo(0) }

// drainTo waits for answers and handles them until at most limit requests are outstanding.
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

// abandon ends the window because there is no conclusive answer to job. It counts the later
// requests, which may still get answers.
func (f *flights[J, T]) abandon(job J, outcome zkconn.Outcome) {
	if f.onLost != nil {
		f.onLost(job, outcome)
	}
	f.abandonRest()
}

// abandonRest ends the window and counts the requests that are still outstanding. It ignores
// rejections.
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

// wait waits for an answer. refusal is set if the server rejected the request, which then had no
// effect. err is set if there is no conclusive answer.
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

// adjustWindow returns the new size of a window after an answer: half the size if the server was
// overloaded, or else one more, up to limit.
func adjustWindow(window, limit int, slowed bool) int {
	if slowed {
		return max(1, window/2)
	}
	return min(limit, window+1)
}

// outlive returns a context that ends one grace period after ctx, with the same cause. The
// returned function releases the context.
func outlive(ctx context.Context, grace gracePeriod) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // its goroutine ends with waiting at the latest
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
