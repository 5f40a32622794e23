package zktree

import (
	"fmt"
	"iter"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// An Edit is a planned change of one znode.
type Edit struct {
	Does    Deed
	Path    string
	Znode   *dump.Znode // wanted state of the znode; its Path is ignored; nil for Leaves and Deletes
	Version int32       // required data version, or ACL version for Opens and SetsACL; -1 for any
	Also    bool        // whether another edit sets the data of the same znode
	Missing error       // reason why the znode, which does not exist, cannot be created; only for Leaves
}

// A Deed is the action of an Edit.
type Deed int

// The actions of an Edit.
const (
	Leaves  Deed = iota // leaves the znode unchanged, although it differs
	Creates             // creates the znode, after its parents; never as an ephemeral one
	Sets                // sets the data
	Opens               // sets the ACL immediately, to permit later edits
	SetsACL             // sets the ACL after all other edits
	Deletes             // deletes the znode, after its children

	replaces // used only by Writer for an existing znode: sets the data now and the ACL at the end
)

// acl returns the ACL of the wanted znode. If that ACL is unknown, acl returns an ACL that grants
// all permissions to everybody.
func (e Edit) acl() []zk.ACL {
	if e.Znode.ACL == nil {
		return zkconn.OpenACL()
	}
	return e.Znode.ACL
}

// Changes reports whether the edit counts as a change of an existing znode. If two edits change the
// data and the ACL of the same znode, only the edit of the data counts.
func (e Edit) Changes() bool {
	return e.Does == Sets || (e.Does == Opens || e.Does == SetsACL) && !e.Also
}

// Plan returns the edits that make tree A, at the path root, equal to tree B. It leaves unreadable
// and ephemeral znodes unchanged. An edit fails if its znode has changed since it was read.
//
// Parents are created before their children, and children are deleted before their parents. ACLs
// are set last, because they may deny the session access. But an ACL that newly permits the session
// to create children is set before these children are created.
func Plan(root string, differences iter.Seq2[Difference, error]) iter.Seq2[Edit, error] {
	return func(yield func(Edit, error) bool) {
		p := &planner{tree: Tree{Root: root}}
		for d, err := range differences {
			if err != nil {
				yield(Edit{}, err)
				return
			}
			for _, e := range p.next(d) {
				if !yield(e, nil) {
					return
				}
			}
		}
		for _, e := range append(p.takeDeletions(), reversed(p.acls)...) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A planner turns differences into edits. It holds back deletions, which must come after those of
// the children, and most edits of ACLs, which come last.
type planner struct {
	tree    Tree
	deleted []Edit // pending deletions, parents before their children
	acls    []Edit
	masked  string // root of the latest subtree that cannot be created; empty if there was none yet
}

const maskedACL = "the ACL contains no password hash (export or copy the znode as a user with admin permission on it)"

func (p *planner) next(d Difference) (all []Edit) {
	at := Edit{Path: p.tree.At(d.Below), Version: -1}
	if d.A != nil && d.A.Stat != nil {
		at.Version = d.A.Stat.Version
	}
	leave := func() []Edit { return append(p.takeDeletions(), at) }
	leaveMissing := func(why string) []Edit {
		at.Missing = fmt.Errorf("%s: %s", at.Path, why)
		return leave()
	}
	switch {
	case d.Err != nil:
		return leave()
	case d.B == nil && d.A.Kind != dump.Ephemeral:
		at.Does = Deletes
		p.deleted = append(p.deleted, at)
		return nil
	case d.B == nil || d.B.Kind == dump.Ephemeral || d.Aspect&KindDiffers != 0:
		return leave()
	case p.masked != "" && dump.Within(d.Below, p.masked):
		return leaveMissing("one of its parents cannot be created")
	}
	masked := slices.ContainsFunc(d.B.ACL, zkconn.Masked)
	switch {
	case d.A == nil && masked:
		p.masked = d.Below
		return leaveMissing(maskedACL)
	case d.A == nil:
		at.Does, at.Znode = Creates, d.B
		return append(p.takeDeletions(), at)
	}
	also := d.Aspect&DataDiffers != 0
	if also {
		set := at
		set.Does, set.Znode = Sets, d.B
		all = append(p.takeDeletions(), set)
	}
	switch acl := at; {
	case d.Aspect&ACLDiffers == 0:
	case masked:
		all = append(all, leave()...)
	default:
		acl.Does, acl.Version, acl.Also = SetsACL, -1, also
		if d.A.Stat != nil {
			acl.Version = d.A.Stat.Aversion
		}
		z := *d.B
		z.Data = nil // save memory, because the planner may hold this edit until the end
		acl.Znode = &z
		if ShutsOut(d.A) && !ShutsOut(d.B) {
			acl.Does = Opens
			if worldMay(d.B, zk.PermWrite) {
				return append(append(p.takeDeletions(), acl), all...)
			}
			return append(append(p.takeDeletions(), all...), acl)
		}
		p.acls = append(p.acls, acl)
	}
	return all
}

// takeDeletions returns the pending deletions, children before their parents, and removes them from
// the planner.
func (p *planner) takeDeletions() []Edit {
	all := reversed(p.deleted)
	p.deleted = nil
	return all
}

func reversed(all []Edit) []Edit {
	slices.Reverse(all)
	return all
}
