package zktree

import (
	"context"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// patience says how long the answers to what was sent are waited for once the
// context has ended.
type patience time.Duration

const atOnce patience = 0 // what is only read is not missed

var graceful = patience(time.Second) // what was changed is counted; a test's servers have longer

// flights keeps a window of requests under way on a pipe and takes their answers
// in order, refusals included. A server that has too much to do with a window gets half
// of it.
type flights[J, T any] struct {
	ctx     context.Context // the one the pipe was made with, which sends nothing any more once it has ended
	waiting context.Context
	close   func()
	most    int
	window  int
	slowed  bool // a request was sent again, behind what was sent after it
	take    func(J, T, error) error
	lost    func(J, zkconn.Outcome) // takes a job without a conclusive answer; may be nil
	air     []flight[J, T]
}

type flight[J, T any] struct {
	job   J
	reply *zkconn.Pending[T]
}

// inFlight makes a window. Whoever makes it closes it.
func inFlight[J, T any](ctx context.Context, late patience, window int, take func(J, T, error) error) *flights[J, T] {
	waiting, done := outliving(ctx, late)
	return &flights[J, T]{ctx: ctx, waiting: waiting, close: done, most: window, window: window, take: take}
}

// add puts a request into the window, for which the answers of others may have to be
// taken. A request that gets no conclusive answer breaks it off, as does an error of take.
func (f *flights[J, T]) add(job J, reply *zkconn.Pending[T]) error {
	f.air = append(f.air, flight[J, T]{job, reply})
	return f.down(f.window - 1)
}

// rest takes the answers that are still to come.
func (f *flights[J, T]) rest() error { return f.down(0) }

// down takes answers until only so many are to come.
func (f *flights[J, T]) down(left int) error {
	for len(f.air) > left {
		first := f.air[0]
		f.air = f.air[1:]
		v, refusal, outcome, err := f.wait(first.reply)
		if err != nil {
			f.abandon(first.job, outcome)
			return interrupted(f.ctx, err)
		}
		if err := f.take(first.job, v, refusal); err != nil {
			f.abandonRest()
			return err
		}
		left = min(left, f.window-1)
	}
	return nil
}

// abandon takes what has been answered nevertheless, once one has not been.
func (f *flights[J, T]) abandon(job J, outcome zkconn.Outcome) {
	if f.lost != nil {
		f.lost(job, outcome)
	}
	f.abandonRest()
}

// abandonRest ends the window. Refusals do not matter any more.
func (f *flights[J, T]) abandonRest() {
	rest := f.air
	f.air = nil
	for _, next := range rest {
		if f.lost == nil {
			return
		}
		v, refusal, outcome, err := f.wait(next.reply)
		switch {
		case err != nil:
			f.lost(next.job, outcome)
		case refusal == nil:
			_ = f.take(next.job, v, nil) // of what succeeded it only takes note
		}
	}
}

// wait takes an answer. A refusal is an error with which the server says that the request
// had no effect; with any other error there is no conclusive answer.
func (f *flights[J, T]) wait(reply *zkconn.Pending[T]) (v T, refusal error, outcome zkconn.Outcome, err error) {
	v, err = reply.Wait(f.waiting)
	f.window = pace(f.window, f.most, reply.Slowed())
	f.slowed = f.slowed || reply.Slowed()
	outcome = reply.Outcome()
	if err != nil && reply.Answered() && outcome.Rejected > 0 {
		return v, err, outcome, nil
	}
	return v, nil, outcome, err
}

// pace is how wide a window is after an answer.
func pace(window, most int, slowed bool) int {
	if slowed {
		return max(1, window/2)
	}
	return min(most, window+1)
}

// outliving gives a context that ends some time after ctx, with its cause.
func outliving(ctx context.Context, late patience) (context.Context, func()) {
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { // in a goroutine that ends with waiting
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
