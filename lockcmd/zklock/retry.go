package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// transient tells an error that the next connection can cure.
func transient(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionMoved)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// insist repeats a request until its answer is known: nil, or an error that is
// not transient, or the end of ctx or of the session.
func insist(ctx context.Context, s Session, request func() error) error {
	for pause := firstPause; ; pause = longer(pause) {
		changed := nextChange(s)
		err := request()
		switch {
		case errors.Is(err, zk.ErrSessionExpired) && !ended(s): // the server is about to close the connection
			select {
			case <-changed:
			case <-ctx.Done():
			}
		case !transient(err):
			return err
		default:
			calmDown(ctx, changed, pause)
		}
		if ctx.Err() != nil {
			return err
		}
		if err := s.Await(ctx); err != nil {
			return err
		}
	}
}

// The pauses before a request is made again on the same connection.
const (
	firstPause = 5 * time.Millisecond
	longPause  = time.Second
)

func longer(pause time.Duration) time.Duration { return min(2*pause, longPause) }

// calmDown waits for so long, or until the connection changes: a server that answers
// with an error of connections, and keeps this one, is not to be asked without end.
func calmDown(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// bound gives a context of its own that ends with the session: what cleans up
// must not depend on the context whose end it follows.
func bound(s Session) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with cancel or with the session
		select {
		case <-s.Ended():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
