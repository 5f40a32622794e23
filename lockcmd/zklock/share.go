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
	name, ok := e.renamed(prefix(e.l.opt.Family, Shared, e.guid))
	if !ok {
		return nil // keep it exclusive: numbers repeat, so a new znode would be behind the waiters
	}
	r := e.replacedBy(name, zk.FlagEphemeral, e.l.opt.Data, -1)
	h.stopMonitor()
	defer h.startMonitor()
	e.replacement = name
	err := retry(ctx, e.s, func() error { return e.s.Multi(ctx, r.create, r.change, r.remove) })
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists): // exists: an earlier, unanswered try took effect
		h.recordShared()
		return nil
	case ended(e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() == nil: // rejected
		e.replacement = ""
		if errors.Is(err, zk.ErrNoAuth) && errors.Is(e.s.Multi(ctx, r.change), zk.ErrNoAuth) {
			err = nil // the holder may not write to its znode, so it cannot warn the waiters: stay exclusive
		}
	}
	e.watched = false // makes monitor find out whether the transaction took effect
	return err
}

// recordShared records that the lock has become shared.
func (h *hold) recordShared() {
	e := h.e
	e.name, e.replacement, e.mode, e.watched = e.replacement, "", Shared, false
	h.set(h.status().State, func(st *Status) { st.Mode, st.Node = Shared, e.node() })
}

// renamed returns a new name for our own znode: the given prefix, followed by the sequence number of
// the znode. ok is false if the sequence number does not show the place in the queue, because the
// counter of the server has overflowed.
func (e *entry) renamed(prefix string) (name string, ok bool) {
	n, ok := ParseName(e.name)
	if !ok || !trusted(n.Number) {
		return "", false
	}
	return fmt.Sprintf("%s%010d", prefix, n.Number), true
}

// A replacement contains the operations of a transaction that replaces our own znode with another
// one, in their order.
//
// Before the transaction deletes our own znode, it sets the data of the znode. This event makes
// waiters list the contenders again. Without it, they could take the deletion for a release (see The
// hand-off).
type replacement struct {
	create *zk.CreateRequest
	change *zk.SetDataRequest
	remove *zk.DeleteRequest
}

// replacedBy returns the operations that replace our own znode with a znode of the given name, with
// the given flags and data. The transaction fails unless our own znode has the given version.
func (e *entry) replacedBy(name string, flags int32, data []byte, version int32) replacement {
	return replacement{
		create: &zk.CreateRequest{Path: e.l.child(name), Data: data, Acl: e.l.opt.ACL, Flags: flags},
		change: &zk.SetDataRequest{Path: e.node(), Data: data, Version: version},
		remove: &zk.DeleteRequest{Path: e.node(), Version: -1},
	}
}
