package demo

import (
	"context"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// zkshLock is the recipe of zksh's own command lock. It creates its znode and lists the folder
// in one round trip, and watches its own znode in addition to its predecessor. A holder that did
// not wait, such as the starter, sends one more request for this watch. A contender that holds
// the lock for a long time renews its lease; the formula does not count these requests.
type zkshLock struct {
	*contender
	lease  *zklock.Lease
	waited bool // used only by onStatus
}

func (l *zkshLock) lock(ctx context.Context) (err error) {
	if _, err := l.session.Standalone(ctx); err != nil { // the answer is cached, so this costs one request per connection, not per lock
		return err
	}
	l.lease, err = zklock.New(l, l.folder, zklock.Options{Notify: l.onStatus}).Lock(ctx)
	return err
}

func (l *zkshLock) unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }

// Session implements zklock.Conn.
func (l *zkshLock) Session(context.Context) (zklock.Session, error) { return l.session, nil }

// onStatus receives the recipe's status reports and passes them to the referee.
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
