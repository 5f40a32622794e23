package demo

import (
	"context"

	"github.com/zksh/zksh/lockcmd/zklock"
)

// own: what the command lock does, by its very recipe. It creates and lists in one
// round trip, and watches its own znode besides the one before: a holder that has not
// waited, such as the starter, has one request more for that. Who holds for long proves
// now and then that the lease stands, which no formula counts.
type own struct {
	*contender
	lease  *zklock.Lease
	waited bool // hear's own
}

func (l *own) lock(ctx context.Context) (err error) {
	if _, err := l.session.Standalone(ctx); err != nil { // asked once for each connection, not for each lock
		return err
	}
	l.lease, err = zklock.New(l, l.folder, zklock.Options{Notify: l.hear}).Lock(ctx)
	return err
}

func (l *own) unlock(ctx context.Context) error { return l.lease.Unlock(ctx) }

// Session is part of zklock.Conn.
func (l *own) Session(context.Context) (zklock.Session, error) { return l.session, nil }

// hear is told the recipe's states.
func (l *own) hear(s zklock.Status) {
	switch s.State {
	case zklock.Queued:
		l.waited = true
		l.takeTicket(number(s.Node))
		l.park()
	case zklock.Held:
		l.takeTicket(number(s.Node))
		if l.waited {
			l.tell(woken)
		}
	}
}
