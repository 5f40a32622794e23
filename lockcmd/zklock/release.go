package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// Unlock releases the lease. If it is the last lease, Unlock also releases the lock, and
// returns once the server has confirmed that the lock was held until the release.
//
// The error is one of these:
//
//   - ErrNotHeld if the lease has already been released
//   - ErrLost if the lock was lost, even if Unlock is the first to notice
//   - ErrUnconfirmed if ctx ended before the answer arrived. The lease is released; the
//     removal of the znodes continues in the background until the state is Released or Lost.
//   - any other error, such as a missing permission: the lease is still held
func (l *Lease) Unlock(ctx context.Context) error {
	lock := l.h.e.l
	if err := lock.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { <-lock.turn }()
	if l.done {
		return ErrNotHeld
	}
	err := l.h.release(ctx, l.mode)
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnconfirmed) {
		l.done = true
		l.end(err)
	}
	if lock.hold == l.h && (l.h.isOver() || errors.Is(err, ErrUnconfirmed)) {
		lock.hold = nil
	}
	return err
}

// release releases one lease of the given mode. If it is the last lease, release deletes the
// lock's znode and waits for the server's answer.
func (h *hold) release(ctx context.Context, mode Mode) error {
	switch {
	case h.lostError() != nil:
	case h.counts[mode] > 1 || mode == Shared && h.counts[Exclusive] > 0:
		h.counts[mode]--
		return nil
	case mode == Exclusive && h.counts[Shared] > 0:
		err := h.makeShared(ctx)
		if err == nil {
			h.counts[mode]--
		}
		return err
	}
	h.stopMonitor()
	if err := h.lostError(); err != nil { // monitor may have noticed the loss before it stopped
		return err
	}
	h.set(Releasing, nil)
	defer guard(h.e.s)()
	byThisLock, err := h.e.remove(ctx)
	switch {
	case err == nil:
		h.recordRelease(byThisLock)
		return h.lostError()
	case ended(h.e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() != nil:
		h.e.withdrawInBackground(h.recordRelease)
		return ErrUnconfirmed
	}
	h.e.unanswered = false // the server rejected the delete, so no earlier delete took effect either
	h.set(Held, nil)
	h.startMonitor()
	return h.e.leftoverError(err)
}

// recordRelease records that the lock's znode is gone. If this lock has deleted it (byThisLock), the
// lock is released. Otherwise, the lock is lost.
func (h *hold) recordRelease(byThisLock bool) {
	if byThisLock {
		h.set(Released, nil)
	} else {
		h.lose(errRemoved)
	}
}

// withdrawAfter deletes the entry's own znode if err, the result of the attempt, is not nil. It
// returns err, joined with the error of the deletion.
func (e *entry) withdrawAfter(ctx context.Context, err error) error {
	if err != nil && !ended(e.s) && (e.name != "" || e.mayExist) {
		err = errors.Join(err, e.withdraw(ctx))
	}
	return err
}

// withdraw deletes the znode of a failed attempt to acquire the lock, even if its name is not known.
// If ctx ends first, withdraw returns, and the deletion continues in the background.
func (e *entry) withdraw(ctx context.Context) error {
	if ctx.Err() == nil {
		_, err := e.sweep(ctx)
		if ctx.Err() == nil {
			return e.leftoverError(err)
		}
	}
	e.withdrawInBackground(func(bool) {})
	return nil
}

// withdrawInBackground deletes the entry's znode in the background, and calls whenGone once it is
// gone. byThisLock is true if this lock deleted it, or if the server deleted it at the end of the
// session.
func (e *entry) withdrawInBackground(whenGone func(byThisLock bool)) {
	e.l.sweeps.run(func() {
		ctx, cancel := sessionContext(e.s)
		defer cancel()
		byThisLock, err := e.sweep(ctx)
		if err := e.leftoverError(err); err != nil && !ended(e.s) {
			e.l.notify(Status{State: Releasing, Mode: e.mode, Node: e.node(), Err: err})
			return
		}
		whenGone(byThisLock || err != nil)
	})
}

// leftoverError returns an error for the user if the znode could not be deleted. err is the reason,
// or nil. leftoverError returns nil if err is nil, or if no znode can have been created.
func (e *entry) leftoverError(err error) error {
	node := e.node()
	switch {
	case err == nil || node == "" && !e.mayExist:
		return nil
	case node == "":
		return fmt.Errorf("cannot delete the znode that zksh may have created below %s; it remains until the session ends: %w", e.l.path, err)
	}
	return fmt.Errorf("cannot delete %s, which remains until the session ends: %w", node, err)
}

// sweep deletes the entry's znode, and finds it first if its name is not known. A create that is
// still in flight reaches the server before the requests of sweep, so sweep finds its znode. sweep
// returns when the znode is certainly gone, when it cannot be deleted, or when ctx or the session
// ends. byThisLock reports whether this lock deleted it.
func (e *entry) sweep(ctx context.Context) (byThisLock bool, err error) {
	if e.name == "" {
		children, err := e.syncAndList(ctx)
		if err == nil {
			e.name = e.ownAmong(children)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		}
		if err != nil || e.name == "" {
			return false, err
		}
	}
	return e.remove(ctx)
}

// remove deletes the entry's znode, whose name is known. byThisLock reports whether this lock deleted
// it. If the znode is missing, another client deleted it, or an earlier request of this lock whose
// answer was lost. After an unanswered replacement, remove deletes whichever of the two znodes
// exists.
func (e *entry) remove(ctx context.Context) (byThisLock bool, err error) {
	for _, name := range []string{e.name, e.replacement} {
		if name == "" {
			continue
		}
		err := retry(ctx, e.s, func() error {
			if err := e.s.Await(ctx); err != nil {
				return err // nothing was sent
			}
			err := e.s.Multi(ctx, &zk.DeleteRequest{Path: e.l.child(name), Version: -1})
			e.unanswered = e.unanswered || transient(err) || ctx.Err() != nil
			return err
		})
		switch {
		case err == nil:
			byThisLock = true
		case !errors.Is(err, zk.ErrNoNode):
			return false, err
		}
	}
	return byThisLock || e.unanswered, nil
}
