package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// makeShared turns an exclusive lock into a shared one without a gap. One transaction
// replaces its znode with a shared znode of the same number, so that no waiting writer can
// get the lock in between (CURATOR-621).
func (h *hold) makeShared(ctx context.Context) error {
	e := h.e
	var ops []any
	var names []string
	for i, prefix := range prefixes(e.l.opt.Family, Shared, e.guid) {
		n, ok := ParseName(e.names[i])
		if !ok || !trusted(n.Number) {
			return nil // keep it exclusive: numbers repeat, so a new znode would be behind the waiters
		}
		name := fmt.Sprintf("%s%010d", prefix, n.Number)
		names = append(names, name)
		ops = append(ops, &zk.CreateRequest{Path: e.l.child(name), Data: e.l.opt.Data, Acl: e.l.opt.ACL, Flags: zk.FlagEphemeral})
	}
	var changes []any // waiters see these events before the deletes; see The hand-off
	for _, name := range e.names {
		change := &zk.SetDataRequest{Path: e.l.child(name), Data: e.l.opt.Data, Version: -1}
		changes = append(changes, change)
		ops = append(ops, change, &zk.DeleteRequest{Path: change.Path, Version: -1})
	}
	h.stopMonitor()
	defer h.startMonitor()
	e.sharedNames = names
	err := retry(ctx, e.s, func() error { return e.s.Multi(ctx, ops...) })
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists): // exists: an earlier, unanswered try took effect
		h.recordShared()
		return nil
	case ended(e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() == nil: // rejected
		e.sharedNames = nil
		if errors.Is(err, zk.ErrNoAuth) && errors.Is(e.s.Multi(ctx, changes...), zk.ErrNoAuth) {
			err = nil // the holder may not write to its znode, so it cannot warn the waiters: stay exclusive
		}
	}
	e.watched = false // makes monitor find out whether the transaction took effect
	return err
}

// recordShared records that the lock has become shared.
func (h *hold) recordShared() {
	e := h.e
	e.names, e.sharedNames, e.mode, e.watched = e.sharedNames, nil, Shared, false
	h.set(h.status().State, func(st *Status) { st.Mode, st.Node, h.nodes = Shared, e.node(), e.nodes() })
}
