package zktree

import (
	"context"
	"errors"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
)

// patience says how long the answers to what was sent are waited for once the
// context has ended.
type patience time.Duration

const (
	atOnce   patience = 0                     // what is only read is not missed
	graceful          = patience(time.Second) // what was changed is counted
)

// inFlight keeps a window of requests under way on a pipe and takes their answers
// in order, refusals included. next makes a request, or none (nil) while there is
// nothing to ask for; answers may bring more to ask. Any other error than a
// refusal breaks it off, as does one of take. ctx is the one the pipe was made
// with, which therefore sends nothing any more once it has ended.
func inFlight[J, T any](ctx context.Context, late patience, window int,
	next func() (J, *zkconn.Pending[T]), take func(J, T, error) error,
) error {
	type flight struct {
		job   J
		reply *zkconn.Pending[T]
	}
	var air []flight
	waiting, done := outliving(ctx, late)
	defer done()
	for {
		for len(air) < window {
			job, reply := next()
			if reply == nil {
				break
			}
			air = append(air, flight{job, reply})
		}
		if len(air) == 0 {
			return nil
		}
		first := air[0]
		air = air[1:]
		v, err := first.reply.Wait(waiting)
		switch {
		case ctx.Err() != nil && errors.As(err, new(*zkconn.UnsentError)):
			return context.Cause(ctx)
		case err != nil && !errors.As(err, new(*zkconn.Error)):
			return err
		}
		if err := take(first.job, v, err); err != nil {
			return err
		}
	}
}

// each sends one request for each path.
func each[T any](ctx context.Context, late patience, paths []string, send func(string) *zkconn.Pending[T], take func(T, error)) error {
	return inFlight(ctx, late, singleWindow,
		func() (string, *zkconn.Pending[T]) {
			if len(paths) == 0 {
				return "", nil
			}
			path := paths[0]
			paths = paths[1:]
			return path, send(path)
		},
		func(_ string, v T, err error) error { take(v, err); return nil })
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
