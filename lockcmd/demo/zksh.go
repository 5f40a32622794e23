package demo

import (
	"context"

	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// zkshLock is the recipe of zksh's own command lock. It creates its znode and lists the folder in
// one round trip. It watches its own znode in addition to its predecessor.
//
// A holder that did not have to wait sends one more request for the watch on its own znode. A
// holder also sends requests to renew its lease if it holds the lock for long; the formula does
// not include these.
type zkshLock struct {
	*contender
	lease  *zklock.Lease
	waited bool // whether the contender had to wait; used only by onStatus
}

func (l *zkshLock) lock(ctx context.Context) error {
	return l.acquire(ctx, zklock.New(l, l.folder, zklock.Options{Notify: l.onStatus}).Lock)
}

// acquire calls a method of package zklock that acquires a lease.
func (l *zkshLock) acquire(ctx context.Context, method func(context.Context) (*zklock.Lease, error)) (err error) {
	// Ask whether the server is standalone. The answer is cached, so this costs one request per
	// connection, not one per lock.
	if _, err := l.session.Standalone(ctx); err != nil {
		return err
	}
	l.lease, err = method(ctx)
	return err
}

func (l *zkshLock) unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }

// Session implements zklock.Conn.
func (l *zkshLock) Session(context.Context) (zklock.Session, error) {
	return ensemble.Adapt(l.session), nil
}

// onStatus reports changes of the lock's status to the referee.
func (l *zkshLock) onStatus(s zklock.Status) {
	switch s.State {
	case zklock.Queued:
		l.waited = true
		l.setTicket(sequenceNumber(s.Node))
		l.beginWait()
	case zklock.Held:
		l.setTicket(sequenceNumber(s.Node))
		if l.waited {
			l.setState(woken)
		}
	}
}
