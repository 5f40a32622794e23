package zkconn

import (
	"context"
	"errors"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// await returns the link's connection, and waits for one if there is none. If patient is true, it
// waits until ctx ends. Otherwise, it fails when all servers in the list have been tried in vain.
// It also fails if a new session begins, because the caller's request was made for the old session.
// path is the path for error messages.
func (l *link) await(ctx context.Context, path string, patient bool) (*wire.Conn, error) {
	now := l.wire.Status()
	return l.awaitFrom(ctx, now, now.Epoch, path, patient)
}

// awaitIn is like await, but also fails unless the current session is the one with the given epoch.
func (l *link) awaitIn(ctx context.Context, epoch wire.Epoch, path string, patient bool) (*wire.Conn, error) {
	return l.awaitFrom(ctx, l.wire.Status(), epoch, path, patient)
}

func (l *link) awaitFrom(ctx context.Context, now wire.Status, epoch wire.Epoch, path string, patient bool) (*wire.Conn, error) {
	passes, once := now.Passes, !patient && l.cfg.WaitOnce
	var late <-chan time.Time
	if now.Conn == nil {
		l.awaiting.Add(1)
		defer l.awaiting.Add(-1)
		l.wire.Expedite()
		// If there was a connection before, wait up to now.Patience for a server to come back.
		if once && !now.LastSent.IsZero() {
			timer := time.NewTimer(now.Patience)
			defer timer.Stop()
			late, patient = timer.C, true
		}
	}
	for ; ; now = l.wire.Status() {
		switch {
		case now.Ending != nil:
			return nil, gone(now)
		case now.Epoch != epoch:
			return nil, &Error{Code: SessionExpired, Path: path}
		}
		if once {
			if err := underLock(l, func() *NoServerError { return l.givenUp }); err != nil {
				return nil, err
			}
		}
		switch {
		case now.Conn != nil && !now.Conn.Leaving():
			return now.Conn, nil
		case now.Passes > passes && !patient:
			err := &NoServerError{Attempts: now.Tried, Final: once}
			if once {
				l.giveUp(err)
			}
			return nil, err
		}
		select {
		case <-now.Changed:
		case <-late:
			if now = l.wire.Status(); now.Conn == nil || now.Conn.Leaving() {
				l.giveUp(&NoServerError{Attempts: latestAttempts(now), Final: true, Waited: now.Patience})
			}
		case <-ctx.Done():
			return nil, l.gaveUp(ctx)
		}
	}
}

// giveUp makes all waiting and later requests of the link fail with the error why, instead of
// waiting for a server. It is called only if Config.WaitOnce is set.
func (l *link) giveUp(why *NoServerError) {
	l.mu.Lock()
	if l.givenUp == nil {
		l.givenUp = why
	}
	l.mu.Unlock()
	l.wire.Wake()
}

// latestAttempts returns the failed attempts to connect in the current pass over the servers. If
// there are none yet, it returns those in the last pass.
func latestAttempts(now wire.Status) []wire.Attempt {
	if len(now.Trying) > 0 {
		return now.Trying
	}
	return now.Tried
}

// gaveUp returns the error of a request that waited for a server until ctx ended. After a deadline,
// this is a *NoServerError with the failed attempts to connect. After a cancellation, it is the
// cause of ctx.
func (l *link) gaveUp(ctx context.Context) error {
	if context.Cause(ctx) != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	tried := latestAttempts(l.wire.Status())
	if len(tried) == 0 {
		for _, h := range l.servers.Hosts {
			tried = append(tried, wire.Attempt{Addr: h, Cause: errors.New("the server did not answer within the timeout")})
		}
	}
	return &NoServerError{Attempts: tried}
}
