package zkconn

import (
	"context"
	"errors"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// await returns the connection to send on. It waits while a server is looked
// for: until a whole pass over the list has failed, or, if patient, until ctx
// ends. A session that changes meanwhile is an error, so that nothing meant for
// one session runs in the next.
func (l *link) await(ctx context.Context, path string, patient bool) (*wire.Conn, error) {
	now := l.wire.Status()
	return l.awaitFrom(ctx, now, now.Epoch, path, patient)
}

// awaitIn is await for the session of an epoch.
func (l *link) awaitIn(ctx context.Context, in wire.Epoch, path string, patient bool) (*wire.Conn, error) {
	return l.awaitFrom(ctx, l.wire.Status(), in, path, patient)
}

func (l *link) awaitFrom(ctx context.Context, now wire.Status, in wire.Epoch, path string, patient bool) (*wire.Conn, error) {
	passes, once := now.Passes, !patient && l.cfg.WaitOnce
	var late <-chan time.Time
	if now.Conn == nil {
		l.awaiting.Add(1)
		defer l.awaiting.Add(-1)
		l.wire.Expedite()
		if once && !now.LastSent.IsZero() { // there was a server
			timer := time.NewTimer(now.Patience)
			defer timer.Stop()
			late, patient = timer.C, true
		}
	}
	for ; ; now = l.wire.Status() {
		switch {
		case now.Ending != nil:
			return nil, gone(now)
		case now.Epoch != in:
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
				l.giveUp(&NoServerError{Attempts: lately(now), Final: true, Waited: now.Patience})
			}
		case <-ctx.Done():
			return nil, l.gaveUp(ctx)
		}
	}
}

// giveUp ends the wait for a server for all requests of a link that waits once.
func (l *link) giveUp(why *NoServerError) {
	l.mu.Lock()
	if l.givenUp == nil {
		l.givenUp = why
	}
	l.mu.Unlock()
	l.wire.Wake()
}

// lately are the attempts of the pass in progress, or else of the last one.
func lately(now wire.Status) []wire.Attempt {
	if len(now.Trying) > 0 {
		return now.Trying
	}
	return now.Tried
}

// gaveUp tells a deadline from a cancellation.
func (l *link) gaveUp(ctx context.Context) error {
	if context.Cause(ctx) != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	tried := lately(l.wire.Status())
	if len(tried) == 0 {
		for _, h := range l.servers.Hosts {
			tried = append(tried, wire.Attempt{Addr: h, Cause: errors.New("the server did not answer within the timeout")})
		}
	}
	return &NoServerError{Attempts: tried}
}
