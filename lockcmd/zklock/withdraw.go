package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
)

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

// remove deletes the known own znodes, at once if it can. They are gone by us
// unless one of them was not there: then somebody else was first, or an earlier
// request of ours that was not answered.
func (e *entry) remove(ctx context.Context) (ours bool, err error) {
	ours = true
	if len(e.names) > 1 && e.next == nil {
		var ops []any
		for _, name := range e.names {
			ops = append(ops, &zk.DeleteRequest{Path: e.l.child(name), Version: -1})
		}
		err := e.tryToRemove(ctx, func() error { return e.s.Multi(ctx, ops...) })
		if !errors.Is(err, zk.ErrNoNode) {
			return true, err
		}
		ours = e.unanswered // one, or some of several are not there
	}
	missing := 0
	for _, name := range slices.Concat(e.names, e.next) {
		err := e.tryToRemove(ctx, func() error {
			return e.s.Multi(ctx, &zk.DeleteRequest{Path: e.l.child(name), Version: -1})
		})
		switch {
		case errors.Is(err, zk.ErrNoNode):
			missing++
		case err != nil:
			return false, err
		}
	}
	return ours && (e.unanswered || missing <= len(e.next)), nil
}

// tryToRemove sends a removal until it is answered, and takes note of those that
// were not: the server may have carried them out.
func (e *entry) tryToRemove(ctx context.Context, request func() error) error {
	return insist(ctx, e.s, func() error {
		if err := e.s.Await(ctx); err != nil {
			return err // it was not sent
		}
		err := request()
		e.unanswered = e.unanswered || transient(err) || ctx.Err() != nil
		return err
	})
}
