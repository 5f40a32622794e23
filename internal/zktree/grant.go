package zktree

import (
	"cmp"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// A grant is a new ACL for a znode.
type grant struct {
	path            string
	acl             []zk.ACL
	version         int32
	removesIdentity bool // the current ACL has our identity added, and this one removes it
	counted         bool // the znode is already counted as created or changed
}

// setACLNow sets an ACL after all earlier edits have been answered, and waits for the answer.
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

// ShutsOut reports whether a znode's ACL might not permit us to create its children.
func ShutsOut(z *dump.Znode) bool {
	if z.ACL == nil || z.Stat != nil && z.Stat.NumChildren == 0 {
		return false
	}
	return !worldMay(z, zk.PermCreate)
}

// worldMay reports whether a znode's ACL grants a permission to everybody.
func worldMay(z *dump.Znode, perm int32) bool {
	return slices.ContainsFunc(z.ACL, func(a zk.ACL) bool {
		return a.Scheme == "world" && a.ID == "anyone" && a.Perms&perm != 0
	})
}

// writeDeferredACLs sets the ACLs that were deferred to the end.
func (w *Writer) writeDeferredACLs() error {
	left := w.deferredACLs
	w.deferredACLs = nil
	return w.writeACLs(left)
}

// writeACLs sets ACLs, the last one first. The ones that it could not set stay in w.deferredACLs.
func (w *Writer) writeACLs(left []grant) error {
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
	for len(left) > 0 {
		t := left[len(left)-1]
		left = left[:len(left)-1]
		if err := f.add(t, zkconn.Add(w.p, zkconn.SetACL(t.path, t.acl, t.version))); err != nil {
			w.deferredACLs = append(w.deferredACLs, left...)
			return err
		}
	}
	return f.drain()
}
