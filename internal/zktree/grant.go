package zktree

import (
	"cmp"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A grant is a new ACL to be set on a znode.
type grant struct {
	path            string
	acl             []zk.ACL
	version         int32
	removesIdentity bool // whether the new ACL removes the session's identity, which the Writer added
	counted         bool // whether the znode has already been counted as created or changed
}

// setACLNow waits for the replies to all earlier edits. It then sets an ACL and waits for the
// reply.
func (w *Writer) setACLNow(e Edit) error {
	if err := cmp.Or(w.flush(), w.pending.drain()); err != nil {
		return err
	}
	last := w.deferredACLs
	w.deferredACLs = nil
	w.asked++
	before := w.result.Done.Changed
	err := w.writeACLs([]grant{{path: e.Path, acl: e.acl(), version: e.Version, counted: e.Also && w.lastSet == e.Path}})
	if e.Also && w.result.Done.Changed > before {
		w.countedByACL[e.Path] = true
	}
	w.deferredACLs = last
	return err
}

// ShutsOut reports whether a znode's ACL might prevent this session from creating children of the
// znode.
func ShutsOut(z *dump.Znode) bool {
	if z.ACL == nil || z.Stat != nil && z.Stat.NumChildren == 0 {
		return false
	}
	return !worldMay(z, zk.PermCreate)
}

// worldMay reports whether the ACL of a znode grants the permission perm to everybody.
func worldMay(z *dump.Znode, perm int32) bool {
	return slices.ContainsFunc(z.ACL, func(a zk.ACL) bool {
		return a.Scheme == "world" && a.ID == "anyone" && a.Perms&perm != 0
	})
}

// writeDeferredACLs sets the ACLs that were deferred until after all other edits.
func (w *Writer) writeDeferredACLs() error {
	left := w.deferredACLs
	w.deferredACLs = nil
	return w.writeACLs(left)
}

// writeACLs sets the ACLs in grants, in reverse order. It stores those that could not be set in
// w.deferredACLs.
func (w *Writer) writeACLs(grants []grant) error {
	f := newFlights(w.ctx, writeGrace, singleWindow, func(t grant, _ *zk.Stat, refusal error) error {
		switch {
		case refusal != nil:
			w.result.Add(refusal)
			w.deferredACLs = append(w.deferredACLs, t)
		case !t.counted:
			w.result.Done.Changed++
		}
		return nil
	})
	f.onLost = func(t grant, outcome zkconn.Outcome) {
		w.deferredACLs = append(w.deferredACLs, t)
		if !t.counted {
			w.addOutcome(outcome)
		}
	}
	defer f.close()
	for len(grants) > 0 {
		t := grants[len(grants)-1]
		grants = grants[:len(grants)-1]
		if err := f.add(t, zkconn.Add(w.p, zkconn.SetACL(t.path, t.acl, t.version))); err != nil {
			w.deferredACLs = append(w.deferredACLs, grants...)
			return err
		}
	}
	return f.drain()
}
