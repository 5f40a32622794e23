package zklock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// NewOwnedLease returns a lease, for an owner, of the semaphore with n leases on a path. The
// semaphore is the same as that of [NewSemaphore]. It sends nothing to the server. All methods of
// the result that acquire acquire the lease, in the mode Counted.
func NewOwnedLease(conn Conn, path, owner string, n int, opt Options) *Owned {
	l := NewSemaphore(conn, path, n, opt).leases
	l.owner = ownerHash(owner)
	return &Owned{l}
}

// waitUntilOwned waits until the owner of the leases holds one, and returns errOwned then. Another
// process of the owner may have the mutex.
func (s *Semaphore) waitUntilOwned(ctx context.Context) error {
	for {
		err := s.leases.inSession(ctx, func(session Session) error { return s.waitForChange(ctx, session) })
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// waitForChange waits until the list of leases changes or the session ends. It returns errOwned
// instead of waiting if the owner holds a lease.
func (s *Semaphore) waitForChange(ctx context.Context, session Session) error {
	wake := make(chan zk.EventType, 1)
	defer session.Unwatch(s.leases.path, wake)
	children, err := session.Children(ctx, s.leases.path, wake)
	var again <-chan time.Time
	switch {
	case errors.Is(err, zk.ErrNoNode):
		again = time.After(recheckInterval)
	case err != nil:
		return err
	case s.leases.permanentAmong(children) != "":
		return errOwned
	}
	select {
	case <-wake:
	case <-again:
	case <-session.Ended():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// ownerAhead reports whether another attempt of the same owner, which may be about to hold a
// lease, is ahead of this entry.
func (e *entry) ownerAhead(children []string) bool {
	own, _ := ParseName(e.name)
	return slices.ContainsFunc(children, func(name string) bool {
		n, _ := ParseName(name)
		return e.l.ownedBySame(n) && n.Number < own.Number
	})
}
