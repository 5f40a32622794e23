package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// share turns an exclusive lock into a shared one without a gap: in one
// transaction its znode is replaced by a shared one of the same number, so that
// no writer that waits can get in between (CURATOR-621).
func (h *hold) share(ctx context.Context) error {
	e := h.e
	var ops []any
	var names []string
	for i, prefix := range prefixes(e.l.opt.Family, Shared, e.guid) {
		n, ok := ParseName(e.names[i])
		if !ok || !trusted(n.Number) {
			return nil // numbers repeat: a new znode's place would be behind those that wait
		}
		name := fmt.Sprintf("%s%010d", prefix, n.Number)
		names = append(names, name)
		ops = append(ops, &zk.CreateRequest{Path: e.l.child(name), Data: e.l.opt.Data, Acl: e.l.opt.ACL, Flags: zk.FlagEphemeral})
	}
	var changes []any // which those who wait hear of first: see The hand-off
	for _, name := range e.names {
		change := &zk.SetDataRequest{Path: e.l.child(name), Data: e.l.opt.Data, Version: -1}
		changes = append(changes, change)
		ops = append(ops, change, &zk.DeleteRequest{Path: change.Path, Version: -1})
	}
	h.end()
	defer h.start()
	e.next = names
	err := insist(ctx, e.s, func() error { return e.s.Multi(ctx, ops...) })
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists): // which says that a lost answer was yes
		h.shared()
		return nil
	case ended(e.s):
		h.lose(errSessionOver)
		return h.lostError()
	case ctx.Err() == nil: // refused
		e.next = nil
		if errors.Is(err, zk.ErrNoAuth) && errors.Is(e.s.Multi(ctx, changes...), zk.ErrNoAuth) {
			err = nil // who may not write to his own znode cannot tell: it stays exclusive
		}
	}
	e.armed = false // keep shall find out whether it has happened
	return err
}

// shared takes note that the lock has become shared.
func (h *hold) shared() {
	e := h.e
	e.names, e.next, e.mode, e.armed = e.next, nil, Shared, false
	h.set(h.status().State, func(st *Status) { st.Mode, st.Node, h.nodes = Shared, e.node(), e.nodes() })
}
