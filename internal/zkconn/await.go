package zkconn

import (
	"context"
	"errors"
	"time"
)

// await returns the connection to send on. It waits while a server is looked
// for: until a whole pass over the list has failed, or, if patient, until ctx
// ends. A session that changes meanwhile is an error, so that nothing meant for
// one session runs in the next.
func (l *link) await(ctx context.Context, path string, patient bool) (*frameConn, error) {
	return l.awaitIn(ctx, look(l, func() epoch { return l.epoch }), path, patient)
}

// awaitIn is await for the session of an epoch.
func (l *link) awaitIn(ctx context.Context, in epoch, path string, patient bool) (*frameConn, error) {
	l.mu.Lock()
	passes, once := l.passes, !patient && l.cfg.WaitOnce
	var late <-chan time.Time
	if l.cur == nil {
		l.awaiting.Add(1)
		defer l.awaiting.Add(-1)
		l.hosts.expedite()
		if once && !l.lastSent.IsZero() { // there was a server
			timer := time.NewTimer(l.bounded(l.timeout))
			defer timer.Stop()
			late, patient = timer.C, true
		}
	}
	for {
		gone := l.gone()
		switch {
		case gone != nil:
			l.mu.Unlock()
			return nil, gone
		case l.epoch != in:
			l.mu.Unlock()
			return nil, &Error{Code: SessionExpired, Path: path}
		case once && l.givenUp != nil:
			defer l.mu.Unlock()
			return nil, l.givenUp
		case l.cur != nil && !l.cur.leaving():
			defer l.mu.Unlock()
			return l.cur, nil
		case l.passes > passes && !patient:
			defer l.mu.Unlock()
			err := &NoServerError{Attempts: l.failed, Final: once}
			if once {
				l.giveUp(err)
			}
			return nil, err
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			l.mu.Lock()
			if l.cur == nil || l.cur.leaving() {
				l.giveUp(&NoServerError{Attempts: l.lately(), Final: true, Waited: l.bounded(l.timeout)})
			}
			continue
		case <-ctx.Done():
			return nil, l.gaveUp(ctx)
		}
		l.mu.Lock()
	}
}

// giveUp ends the wait for a server for all requests of a link that waits once. Called
// with mu held.
func (l *link) giveUp(why *NoServerError) {
	if l.givenUp == nil {
		l.givenUp = why
		l.notify()
	}
}

// lately are the attempts of the pass under way, or else of the last one. Called with mu
// held.
func (l *link) lately() []AttemptError {
	if len(l.attempts) > 0 {
		return l.attempts
	}
	return l.failed
}

// gaveUp tells a deadline from a cancellation.
func (l *link) gaveUp(ctx context.Context) error {
	if context.Cause(ctx) != context.DeadlineExceeded {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if tried := l.lately(); len(tried) > 0 {
		return &NoServerError{Attempts: tried}
	}
	var waiting []AttemptError
	for _, h := range l.servers.Hosts {
		waiting = append(waiting, AttemptError{h, errors.New("the server did not answer within the timeout")})
	}
	return &NoServerError{Attempts: waiting}
}
