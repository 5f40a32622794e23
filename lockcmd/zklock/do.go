package zklock

import (
	"cmp"
	"context"
	"errors"
)

// Do acquires the lock as Lock does, calls f, and releases the lock, even if f panics. The
// context that f gets ends with ctx and with the lease; token is Lease.Token. Do tries to
// release the lock for up to one session timeout, even after ctx has ended.
//
// The error joins the error of f and the error of the release. It matches ErrLost if the
// lock was lost before it was released, whatever f returned. If the lock was lost before f
// could begin, Do does not call f. A Lock belongs to one owner: calls of Do on the same
// Lock do not exclude each other.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return withLease(ctx, l.Lock, f)
}

// RDo is like Do, but others can hold the lock shared at the same time.
func (l *Lock) RDo(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return withLease(ctx, l.RLock, f)
}

// withLease acquires a lease with take, calls f under it, and releases it.
func withLease(ctx context.Context, take func(context.Context) (*Lease, error), f func(context.Context, int64) error) (err error) {
	lease, err := take(ctx)
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

// withLoss joins the error of a function that ran under a lock and the error of the
// release. It reports a loss of the lock only once.
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
