package zklock

import (
	"cmp"
	"context"
	"errors"
)

// Do acquires the lock as Lock does, calls f, and releases the lock, even if f panics.
// The context of f ends with ctx and with the lease; token is Lease.Token. Do tries to
// release the lock for as long as a session lasts, even after ctx has ended.
//
// The error joins those of f and of the release. It matches ErrLost if the lock was lost
// before it was released, whatever f returned. If the lock was lost before f could begin,
// f is not called. A Lock belongs to one owner: calls of Do on the same Lock do not exclude
// each other.
func (l *Lock) Do(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return during(ctx, l.Lock, f)
}

// RDo is like Do, but others can hold the lock shared at the same time.
func (l *Lock) RDo(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return during(ctx, l.RLock, f)
}

func during(ctx context.Context, take func(context.Context) (*Lease, error), f func(context.Context, int64) error) (err error) {
	lease, err := take(ctx)
	if err != nil {
		return err
	}
	held, end := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { end(context.Cause(lease.Context())) })()
	defer func() {
		lost := isClosed(lease.Lost())
		end(ErrNotHeld) // what f has left running shall not go on without the lock
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.Timeout())
		defer cancel()
		err = withLoss(err, lease.Unlock(ctx), lost)
	}()
	if isClosed(lease.Lost()) {
		return nil
	}
	return f(held, lease.Token())
}

// withLoss joins the errors of what was done under a lock and of the release. A
// loss is told once.
func withLoss(done, released error, lost bool) error {
	switch {
	case errors.Is(released, ErrLost) && errors.Is(done, ErrLost):
		return done
	case lost && !errors.Is(released, ErrLost) && !errors.Is(done, ErrLost):
		released = errors.Join(ErrLost, released)
	}
	if done == nil || released == nil { // as it is, for those who compare
		return cmp.Or(done, released)
	}
	return errors.Join(done, released)
}
