package zklock

import (
	"cmp"
	"context"
	"errors"
)

// Do acquires the lock as Lock does, calls f, and releases the lock, even if f panics. The
// context that f receives ends when ctx or the lease ends; token is the result of Lease.Token.
// Do tries to release the lock for up to one session timeout, even after ctx has ended.
//
// Do returns the errors of f and of the release, joined. The result matches ErrLost if the lock
// was lost before it was released, whatever f returned. If the lock was lost before f could
// begin, Do does not call f. A Lock belongs to one owner: calls of Do on the same Lock do not
// exclude each other.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return withLease(ctx, l.Lock, f)
}

// RDo is like Do, but acquires the lock in shared mode: other owners can hold it in shared mode
// at the same time.
func (l *Lock) RDo(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return withLease(ctx, l.RLock, f)
}

// withLease acquires a lease by calling acquire, calls f with a context that ends with the
// lease, and then releases the lease.
func withLease(ctx context.Context, acquire func(context.Context) (*Lease, error), f func(context.Context, int64) error) (err error) {
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	held, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { end(context.Cause(lease.Context())) })()
	defer func() {
		lost := isClosed(lease.Lost())
		end(ErrNotHeld) // goroutines that f has left running must stop now
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Timeout())
		defer cancel()
		err = withLoss(err, lease.Unlock(ctx), lost)
	}()
	if isClosed(lease.Lost()) {
		return nil
	}
	return f(held, lease.Token())
}

// withLoss joins two errors: done is the error of a function that ran under a lock, and released
// is the error of the release. If lost is true, the result matches ErrLost. The result mentions
// the loss only once.
func withLoss(done, released error, lost bool) error {
	switch {
	case errors.Is(released, ErrLost) && errors.Is(done, ErrLost):
		return done
	case lost && !errors.Is(released, ErrLost) && !errors.Is(done, ErrLost):
		released = errors.Join(ErrLost, released)
	}
	if done == nil || released == nil { // return a single error unwrapped, for callers that compare it
		return cmp.Or(done, released)
	}
	return errors.Join(done, released)
}
