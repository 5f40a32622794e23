package zktree

import (
	"cmp"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// grant is a new ACL for a znode.
type grant struct {
	path    string
	acl     []zk.ACL
	version int32
	ours    bool // until then the znode has our identity in its ACL
	counted bool // its znode is counted as changed already
}

// open sets an ACL before the edits that come after it, and after those that came before it.
func (w *Writer) open(e Edit) error {
	if err := cmp.Or(w.flush(), w.air.rest()); err != nil {
		return err
	}
	last := w.acls
	w.acls = nil
	w.asked++
	before := w.so.Done.Changed
	err := w.grant([]grant{{path: e.Path, acl: e.acl(), version: e.Version, counted: e.Also && w.lastSet == e.Path}})
	if e.Also && w.so.Done.Changed > before {
		w.opened[e.Path] = true
	}
	w.acls = last
	return err
}

// ShutsOut reports whether a znode's ACL may not let us create what is below it.
func ShutsOut(z *dump.Znode) bool {
	if z.ACL == nil || z.Stat != nil && z.Stat.NumChildren == 0 {
		return false
	}
	return !worldMay(z, zk.PermCreate)
}

// worldMay reports whether a znode's ACL gives everybody a permission.
func worldMay(z *dump.Znode, perm int32) bool {
	return slices.ContainsFunc(z.ACL, func(a zk.ACL) bool {
		return a.Scheme == "world" && a.ID == "anyone" && a.Perms&perm != 0
	})
}

// setACLs writes the ACLs that were left for the end.
func (w *Writer) setACLs() error {
	left := w.acls
	w.acls = nil
	return w.grant(left)
}

// grant writes ACLs, the last one first, and keeps in mind those it could not write.
func (w *Writer) grant(left []grant) error {
	f := inFlight(w.ctx, graceful, singleWindow, func(t grant, _ *zk.Stat, refusal error) error {
		switch {
		case refusal != nil:
			w.so.Add(refusal)
			w.acls = append(w.acls, t)
		case !t.counted:
			w.so.Done.Changed++
		}
		return nil
	})
	f.lost = func(t grant, outcome zkconn.Outcome) {
		w.acls = append(w.acls, t)
		if !t.counted {
			w.tally(outcome)
		}
	}
	defer f.close()
	for len(left) > 0 {
		t := left[len(left)-1]
		left = left[:len(left)-1]
		if err := f.add(t, zkconn.Add(w.p, zkconn.SetACL(t.path, t.acl, t.version))); err != nil {
			w.acls = append(w.acls, left...)
			return err
		}
	}
	return f.rest()
}
