package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// transient reports whether err is a connection error. The request can be repeated on
// another connection.
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

// retry repeats a request until it succeeds, until it fails with an error that is not transient,
// or until ctx or the session ends.
func retry(ctx context.Context, s Session, request func() error) error {
	for pause := firstPause; ; pause = nextPause(pause) {
		changed := nextChange(s)
		err := request()
		switch {
		// The server has ended the session, and is about to close the connection.
		case errors.Is(err, zk.ErrSessionExpired) && !ended(s):
			select {
			case <-changed:
			case <-ctx.Done():
			}
		case !transient(err):
			return err
		default:
			backOff(ctx, changed, pause)
		}
		if ctx.Err() != nil {
			return err
		}
		if err := s.Await(ctx); err != nil {
			return err
		}
	}
}

// Minimum and maximum pause before a request is repeated on the same connection.
const (
	firstPause = 5 * time.Millisecond
	longPause  = time.Second
)

func nextPause(pause time.Duration) time.Duration { return min(2*pause, longPause) }

// backOff waits for the duration pause, or until the connection changes. It prevents a busy loop
// when a server answers with connection errors but keeps the connection open.
func backOff(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sessionContext returns a context that ends when the session ends. Cleanup uses it instead
// of the caller's context, which may have ended already.
func sessionContext(s Session) (context.Context, context.CancelFunc) {
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
