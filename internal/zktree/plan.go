package zktree

import (
	"fmt"
	"iter"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Edit is a change of one znode.
type Edit struct {
	Does    Deed
	Path    string
	Znode   *dump.Znode // as it is to be, wherever it was read; nil for Leaves and Deletes
	Version int32       // the edit fails if the znode's, or its ACL's, is another one; -1: any
	Also    bool        // an ACL is set besides the data, which another edit sets
	Why     string      // the znode is left as it is
	Missing bool        // the znode is left as it is because it cannot be created
}

// Deed is what an Edit does.
type Deed int

// The deeds.
const (
	Leaves  Deed = iota // the znode as it is, though it differs
	Creates             // the znode, which becomes persistent if it was ephemeral; those above it come first
	Sets                // the data
	Opens               // the znode by its ACL, for the edits behind it
	SetsACL             // in the end
	Deletes             // the znode; those below it come first

	replaces // the data now and the ACL in the end, of a znode that Creates found; the Writer's own
)

// acl is that of the znode.
func (e Edit) acl() []zk.ACL {
	if e.Znode.ACL == nil {
		return zkconn.OpenACL()
	}
	return e.Znode.ACL
}

// MissingError is the error of an edit whose znode cannot be created.
func (e Edit) MissingError() error { return fmt.Errorf("%s: %s", e.Path, e.Why) }

// Changes reports whether the edit is the one that counts its znode as changed.
func (e Edit) Changes() bool {
	return e.Does == Sets || (e.Does == Opens || e.Does == SetsACL) && !e.Also
}

// Plan returns the edits that make the tree at root, the A of differences, like its model, the
// B, as far as both can be seen: parents are created first, children are deleted first, and ACLs,
// which may shut us out, are set last. If an ACL has kept others from creating children, the new
// one comes first. Ephemeral znodes are left as they are. An edit fails if its znode has changed
// since it was read.
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
		for _, e := range append(p.gone(), reversed(p.acls)...) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// planner keeps what comes later.
type planner struct {
	tree    Tree
	deleted []Edit // parents first
	acls    []Edit
	masked  string // what is below it cannot be created; may be empty
}

const maskedACL = "the ACL contains no password hash (export or copy the znode as a user with admin permission on it)"

func (p *planner) next(d Difference) (all []Edit) {
	at := Edit{Path: p.tree.At(d.Below), Version: -1}
	if d.A != nil && d.A.Stat != nil {
		at.Version = d.A.Stat.Version
	}
	leave := func(why string) []Edit {
		at.Why = why
		return append(p.gone(), at)
	}
	switch {
	case d.Err != nil:
		return leave(d.Err.Error())
	case d.B == nil && d.A.Kind != dump.Ephemeral:
		at.Does = Deletes
		p.deleted = append(p.deleted, at)
		return nil
	case d.B == nil || d.B.Kind == dump.Ephemeral || d.Aspect&KindDiffers != 0:
		return leave("ephemeral znodes are left as they are")
	case p.masked != "" && dump.Within(d.Below, p.masked):
		at.Missing = d.A == nil
		return leave("one of its parents cannot be created")
	}
	masked := slices.ContainsFunc(d.B.ACL, zkconn.Masked)
	switch {
	case d.A == nil && masked:
		p.masked, at.Missing = d.Below, true
		return leave(maskedACL)
	case d.A == nil:
		at.Does, at.Znode = Creates, d.B
		return append(p.gone(), at)
	}
	also := d.Aspect&DataDiffers != 0
	if also {
		set := at
		set.Does, set.Znode = Sets, d.B
		all = append(p.gone(), set)
	}
	switch acl := at; {
	case d.Aspect&ACLDiffers == 0:
	case masked:
		all = append(all, leave(maskedACL)...)
	default:
		acl.Does, acl.Version, acl.Also = SetsACL, -1, also
		if d.A.Stat != nil {
			acl.Version = d.A.Stat.Aversion
		}
		z := *d.B
		z.Data = nil // the edit may be held in memory until the end
		acl.Znode = &z
		if ShutsOut(d.A) && !ShutsOut(d.B) {
			acl.Does = Opens
			if worldMay(d.B, zk.PermWrite) {
				return append(append(p.gone(), acl), all...)
			}
			return append(append(p.gone(), all...), acl)
		}
		p.acls = append(p.acls, acl)
	}
	return all
}

// gone are the znodes to be deleted, leaves first.
func (p *planner) gone() []Edit {
	all := reversed(p.deleted)
	p.deleted = nil
	return all
}

func reversed(all []Edit) []Edit {
	slices.Reverse(all)
	return all
}
