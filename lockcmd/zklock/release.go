package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Unlock gives the lease back. The last lease releases the lock: then Unlock returns
// once the server has confirmed that the lock was held until now.
//
// The error is ErrNotHeld if the lease was given back before; ErrLost if the lock had
// been lost, which the release itself may find out; and ErrUnconfirmed if ctx ended
// before the answer came. In the last case the lease is given back, too, and the removal
// goes on in the background until the state is Released or Lost. After any other error,
// such as a missing permission, the lease is still held.
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
	if lock.hold == l.h && (l.h.over() || errors.Is(err, ErrUnconfirmed)) {
		lock.hold = nil
	}
	return err
}

// release takes back one lease of a mode. For the last one it removes the own znodes, and
// waits for the server's answer.
func (h *hold) release(ctx context.Context, mode Mode) error {
	switch {
	case h.lostError() != nil:
	case h.counts[mode] > 1 || mode == Shared && h.counts[Exclusive] > 0:
		h.counts[mode]--
		return nil
	case mode == Exclusive && h.counts[Shared] > 0:
		err := h.share(ctx)
		if err == nil {
			h.counts[mode]--
		}
		return err
	}
	h.end()
	if err := h.lostError(); err != nil { // keep may have found out just now
		return err
	}
	h.set(Releasing, nil)
	defer guard(h.e.s)()
	ours, err := h.e.remove(ctx)
	switch {
	case err == nil:
		h.settle(ours)
		return h.lostError()
	case ended(h.e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() != nil:
		h.e.withdrawLater(h.settle)
		return ErrUnconfirmed
	}
	h.e.unanswered = false // the server rejected it, so no earlier request took effect either
	h.set(Held, nil)
	h.start()
	return h.e.stuck(err)
}

// settle takes note that the own znodes are gone: by us, or before us.
func (h *hold) settle(ours bool) {
	if ours {
		h.set(Released, nil)
	} else {
		h.lose(errRemoved)
	}
}

// withdraw removes the own znodes, known or not, after a failed attempt. When ctx
// has ended nobody waits, and the removal goes on in the background.
func (e *entry) withdraw(ctx context.Context) error {
	if ctx.Err() == nil {
		_, err := e.sweep(ctx)
		if ctx.Err() == nil {
			return e.stuck(err)
		}
	}
	e.withdrawLater(func(bool) {})
	return nil
}

// withdrawLater removes the own znodes in the background, and calls then once
// they are gone, by us or with their session, or were gone before.
func (e *entry) withdrawLater(then func(ours bool)) {
	e.l.sweeps.run(func() {
		ctx, cancel := bound(e.s)
		defer cancel()
		ours, err := e.sweep(ctx)
		if err := e.stuck(err); err != nil && !ended(e.s) {
			e.l.notify(Status{State: Releasing, Mode: e.mode, Node: e.node(), Err: err})
			return
		}
		then(ours || err != nil)
	})
}

// stuck explains what it means that znodes cannot be removed. Where none can have
// been made there is nothing to explain.
func (e *entry) stuck(err error) error {
	node := e.node()
	switch {
	case err == nil || node == "" && !e.unsure:
		return nil
	case node == "":
		return fmt.Errorf("cannot delete the znode that zksh may have created below %s; it remains until the session ends: %w", e.l.path, err)
	}
	return fmt.Errorf("cannot delete %s, which remains until the session ends: %w", node, err)
}

// sweep removes the own znodes and returns once they are surely gone, or cannot
// be removed, or ctx or the session ends. A create still on its way arrives
// before the requests made here.
func (e *entry) sweep(ctx context.Context) (ours bool, err error) {
	if len(e.names) == 0 {
		children, err := e.syncAndList(ctx)
		if err == nil {
			e.names = e.find(children)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return false, nil
		}
		if err != nil || len(e.names) == 0 {
			return false, err
		}
	}
	return e.remove(ctx)
}

// remove deletes the known own znodes, of several all in one transaction if it can. It
// reports whether this lock deleted them. If one of them was not there, another client was
// first, or an earlier request of ours that was not answered.
func (e *entry) remove(ctx context.Context) (ours bool, err error) {
	var requests [][]any
	for _, name := range slices.Concat(e.names, e.next) {
		requests = append(requests, []any{&zk.DeleteRequest{Path: e.l.child(name), Version: -1}})
	}
	if len(e.names) > 1 && e.next == nil {
		requests = slices.Insert(requests, 0, slices.Concat(requests...))
	}
	ours = true
	missing := 0
	for _, ops := range requests {
		err := insist(ctx, e.s, func() error {
			if err := e.s.Await(ctx); err != nil {
				return err // it was not sent
			}
			err := e.s.Multi(ctx, ops...)
			e.unanswered = e.unanswered || transient(err) || ctx.Err() != nil
			return err
		})
		several := len(ops) > 1
		switch {
		case err == nil && several:
			return true, nil
		case errors.Is(err, zk.ErrNoNode) && several: // then each by itself
			ours = e.unanswered
		case errors.Is(err, zk.ErrNoNode):
			missing++
		case err != nil:
			return false, err
		}
	}
	return ours && (e.unanswered || missing <= len(e.next)), nil
}
