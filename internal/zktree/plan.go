package zktree

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
)

// Edits is a sequence of edits. An error comes last, with a nil edit.
type Edits = iter.Seq2[*Edit, error]

// An Edit is a planned change of one znode. It takes effect only if the znode is as Old says.
type Edit struct {
	Does Deed
	Path string
	// Old is the state that the edit requires. It is nil if the znode must not exist. If it has no
	// Stat, any state will do; if the Stat has no Czxid, only the version counts.
	Old     *dump.Znode
	New     *dump.Znode // wanted state of the znode; its Path is ignored; nil for Leaves and Deletes
	Why     error       // for Leaves: reason why the znode stays as it is
	Missing bool        // for Leaves: whether the znode does not exist, and cannot be created

	Number   int   // number that a Recorder has given to the edit; 0 if there is none
	saved    bool  // whether a Recorder has recorded the edit
	anyState bool  // whether Old has a Stat only because a Recorder has recorded it
	follows  bool  // whether the znode was recorded for an earlier edit of the same command
	czxid    int64 // czxid of the created znode; 0 if unknown

	pair    *pair    // what the edit shares with another edit of the same znode; nil if there is none
	closes  bool     // whether the edit removes the session's identity, which Apply added
	repeats int      // number of times that the edit was sent again or planned anew
	hidden  error    // for edits of a subtree: reason why the children of the znode are unknown, or nil
	now     *zk.Stat // Stat after an ACL was set; nil if unknown
}

// A pair consists of the two edits that change the data and the ACL of one znode.
type pair struct {
	counted bool // whether one of them was counted as a change
	// before is the Stat of the znode when a Recorder recorded it completely for one of them. It is nil
	// if the znode was not recorded, or has been changed by another client since.
	before *zk.Stat
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
)

// acl returns the ACL of the wanted znode. If that ACL is unknown, acl returns an ACL that grants
// all permissions to everybody.
func (e *Edit) acl() []zk.ACL {
	if e.New.ACL == nil {
		return zkconn.OpenACL()
	}
	return e.New.ACL
}

// Changes reports whether the edit counts as a change of an existing znode. If two edits change the
// data and the ACL of the same znode, only the edit of the data counts.
func (e *Edit) Changes() bool { return e.Does == Sets || e.setsACL() && e.pair == nil }

// firstOfZnode reports whether the edit, which was made, is the first change of its znode.
func (e *Edit) firstOfZnode() bool {
	if e.pair == nil {
		return true
	}
	before := e.pair.counted
	e.pair.counted = true
	return !before
}

func (e *Edit) setsACL() bool { return e.Does == Opens || e.Does == SetsACL }

// oldStat returns the Stat that the edit requires. It is empty if the edit requires none.
func (e *Edit) oldStat() *zk.Stat {
	if e.Old == nil || e.Old.Stat == nil {
		return &zk.Stat{}
	}
	return e.Old.Stat
}

// version returns the version of the data or of the ACL that the edit requires, or -1 for any.
func (e *Edit) version() int32 {
	switch {
	case e.Old == nil || e.Old.Stat == nil:
		return -1
	case e.setsACL():
		return e.Old.Stat.Aversion
	}
	return e.Old.Stat.Version
}

// requires reports whether a znode with the given Stat is in the state that the edit requires.
func (e *Edit) requires(st *zk.Stat) bool {
	old := e.oldStat()
	sameZnode := old.Czxid == 0 || old.Czxid == st.Czxid
	sameACL := old.Aversion == st.Aversion
	sameData := old.Version == st.Version
	switch e.Does {
	case Opens, SetsACL:
		return sameZnode && sameACL
	case Deletes:
		return sameZnode && sameData && (sameACL || old.Czxid == 0)
	}
	return sameZnode && sameData
}

// Plan returns the edits that make tree A equal to tree B. It leaves unreadable
// and ephemeral znodes unchanged. An edit fails if its znode has changed since it was read.
//
// Parents are created before their children, and children are deleted before their parents. ACLs
// are set last, because they may deny the session access. But an ACL that newly permits the session
// to create children is set before these children are created.
func Plan(differences Differences) Edits {
	return func(yield func(*Edit, error) bool) {
		p := &planner{}
		for d, err := range differences {
			if err != nil {
				yield(nil, err)
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

// DeletionsLast yields the edits of a plan, but all deletions after the other edits, except for those
// of ACLs. Before the first deletion, it calls confirm with all of them. If confirm returns false, it
// leaves out the deletions.
func DeletionsLast(edits Edits, confirm func(deletions []*Edit) (bool, error)) Edits {
	return func(yield func(*Edit, error) bool) {
		var deletions, acls []*Edit
		for e, err := range edits {
			switch {
			case err == nil && e.Does == Deletes:
				deletions = append(deletions, e)
			case err == nil && e.Does == SetsACL:
				acls = append(acls, e)
			case !yield(e, err) || err != nil:
				return
			}
		}
		if len(deletions) > 0 {
			yes, err := confirm(deletions)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yes {
				deletions = nil
			}
		}
		for _, e := range append(deletions, acls...) {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A planner turns differences into edits. It holds back deletions, which must come after those of
// the children, and most edits of ACLs, which come last.
type planner struct {
	deleted []*Edit // pending deletions, parents before their children
	acls    []*Edit
	masked  string // root of the latest subtree that cannot be created; empty if there was none yet
}

// Reasons why a znode stays as it is.
var (
	errMasked = errors.New("the ACL contains no password hash " +
		"(export or copy the znode as a user with admin permission on it)")
	errParent    = errors.New("one of its parents cannot be created")
	errEphemeral = errors.New("it is ephemeral, or of another kind")
)

func (p *planner) next(d Difference) (all []*Edit) {
	path := d.Path
	leave := func(why error) []*Edit {
		missing := d.A == nil && d.Err == nil && why != errEphemeral
		return append(p.takeDeletions(), &Edit{Path: path, Why: fmt.Errorf("%s: %w", path, why), Missing: missing})
	}
	switch {
	case d.Err != nil:
		return leave(d.Err)
	case d.B == nil && d.A.Kind != dump.Ephemeral:
		old := *d.A
		old.Data = nil // save memory, because the planner may hold this edit until the end
		p.deleted = append(p.deleted, &Edit{Does: Deletes, Path: path, Old: &old})
		return nil
	case d.B == nil || d.B.Kind == dump.Ephemeral || d.Aspect&KindDiffers != 0:
		return leave(errEphemeral)
	case p.masked != "" && dump.Within(path, p.masked):
		return leave(errParent)
	}
	masked := slices.ContainsFunc(d.B.ACL, zkconn.Masked)
	switch {
	case d.A == nil && masked:
		p.masked = path
		return leave(errMasked)
	case d.A == nil:
		return append(p.takeDeletions(), &Edit{Does: Creates, Path: path, New: d.B})
	}
	var both *pair
	if d.Aspect&DataDiffers != 0 && d.Aspect&ACLDiffers != 0 && !masked {
		both = &pair{}
	}
	if d.Aspect&DataDiffers != 0 {
		set := &Edit{Does: Sets, Path: path, Old: d.A, New: d.B, pair: both}
		all = append(p.takeDeletions(), set)
	}
	switch {
	case d.Aspect&ACLDiffers == 0:
		return all
	case masked:
		return append(all, leave(errMasked)...)
	}
	wanted, old := *d.B, *d.A
	wanted.Data, old.Data = nil, nil // save memory, because the planner may hold this edit until the end
	acl := &Edit{Does: SetsACL, Path: path, Old: &old, New: &wanted, pair: both}
	if !ShutsOut(d.A) || ShutsOut(d.B) {
		p.acls = append(p.acls, acl)
		return all
	}
	acl.Does = Opens
	if worldMay(d.B, zk.PermWrite) {
		return append(append(p.takeDeletions(), acl), all...)
	}
	return append(append(p.takeDeletions(), all...), acl)
}

// takeDeletions returns the pending deletions, children before their parents, and removes them from
// the planner.
func (p *planner) takeDeletions() []*Edit {
	all := reversed(p.deleted)
	p.deleted = nil
	return all
}

func reversed(all []*Edit) []*Edit {
	slices.Reverse(all)
	return all
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
