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
	names, ok := e.renamed(prefixes(e.l.opt.Family, Shared, e.guid))
	if !ok {
		return nil // keep it exclusive: numbers repeat, so a new znode would be behind the waiters
	}
	create := func(path string) any {
		return &zk.CreateRequest{Path: path, Data: e.l.opt.Data, Acl: e.l.opt.ACL, Flags: zk.FlagEphemeral}
	}
	ops := e.replaceOps(names, create, e.l.opt.Data, -1)
	var changes []any // the writes among ops
	for _, op := range ops {
		if change, is := op.(*zk.SetDataRequest); is {
			changes = append(changes, change)
		}
	}
	h.stopMonitor()
	defer h.startMonitor()
	e.replacements = names
	err := retry(ctx, e.s, func() error { return e.s.Multi(ctx, ops...) })
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists): // exists: an earlier, unanswered try took effect
		h.recordShared()
		return nil
	case ended(e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() == nil: // rejected
		e.replacements = nil
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
	e.names, e.replacements, e.mode, e.watched = e.replacements, nil, Shared, false
	h.set(h.status().State, func(st *Status) { st.Mode, st.Node, h.nodes = Shared, e.node(), e.nodes() })
}

// renamed returns new names for our own znodes: the given prefixes, followed by the
// sequence numbers of the znodes. ok is false if a sequence number does not show the place
// in the queue, because the counter of the server has overflowed.
func (e *entry) renamed(prefixes []string) (names []string, ok bool) {
	for i, prefix := range prefixes {
		n, ok := ParseName(e.names[i])
		if !ok || !trusted(n.Number) {
			return nil, false
		}
		names = append(names, fmt.Sprintf("%s%010d", prefix, n.Number))
	}
	return names, true
}

// replaceOps returns the operations of a transaction that replaces our own znodes with
// znodes of the given names. create returns the request that creates the znode at path.
//
// Before the transaction deletes a znode, it sets the data of the znode, if the znode has
// the given version. This event makes waiters list the contenders again. Without it, they
// could take the deletion for a release (see The hand-off).
func (e *entry) replaceOps(names []string, create func(path string) any, data []byte, version int32) (ops []any) {
	for _, name := range names {
		ops = append(ops, create(e.l.child(name)))
	}
	for _, name := range e.names {
		node := e.l.child(name)
		ops = append(ops, &zk.SetDataRequest{Path: node, Data: data, Version: version}, &zk.DeleteRequest{Path: node, Version: -1})
	}
	return ops
}
