package zkconn

import (
	"context"
	"errors"
)

// await returns the connection to send on. It waits while a server is looked
// for: until a whole pass over the list has failed, or, if patient, until ctx
// ends. A session that changes meanwhile is an error, so that nothing meant for
// one session runs in the next.
func (l *link) await(ctx context.Context, path string, patient bool) (*frameConn, error) {
	return l.awaitGen(ctx, look(l, func() int { return l.gen }), path, patient)
}

// awaitGen is await for the session after so many expiries.
func (l *link) awaitGen(ctx context.Context, gen int, path string, patient bool) (*frameConn, error) {
	l.mu.Lock()
	passes := l.passes
	for {
		switch {
		case l.refused != nil:
			defer l.mu.Unlock()
			return nil, l.refused
		case l.state == StateClosed || l.state == StateAuthFailed:
			l.mu.Unlock()
			return nil, ErrNotConnected
		case l.gen != gen:
			l.mu.Unlock()
			return nil, &Error{Code: SessionExpired, Path: path}
		case l.cur != nil && !l.cur.leaving():
			defer l.mu.Unlock()
			return l.cur, nil
		case l.passes > passes && !patient:
			defer l.mu.Unlock()
			return nil, &NoServerError{l.failed}
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, l.gaveUp(ctx)
		}
		l.mu.Lock()
	}
}

// gaveUp tells a deadline from a cancellation.
func (l *link) gaveUp(ctx context.Context) error {
	if context.Cause(ctx) != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tried := range [][]AttemptError{l.attempts, l.failed} {
		if len(tried) > 0 {
			return &NoServerError{tried}
		}
	}
	var waiting []AttemptError
	for _, h := range l.servers.Hosts {
		waiting = append(waiting, AttemptError{h, errors.New("no answer within the timeout")})
	}
	return &NoServerError{waiting}
}
