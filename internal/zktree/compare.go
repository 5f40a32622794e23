package zktree

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/dump"
)

// Aspect is in what two znodes differ; several may be joined.
type Aspect int

// The aspects.
const (
	DataDiffers Aspect = 1 << iota
	ACLDiffers
	KindDiffers // one of them is ephemeral, or both are special in another way
)

// Difference is a znode of which two trees do not have the same.
type Difference struct {
	Below string      // the roots; empty for them
	A, B  *dump.Znode // nil: it is not there
	Aspect
	Err error // why it cannot be told, and neither what is below it: one may not be read
}

// Differs looks in what the two differ, and reports whether they do.
func (d *Difference) Differs() bool {
	if d.A != nil && d.B != nil {
		d.Aspect = aspects(d.A, d.B)
		return d.Aspect != 0
	}
	return d.A != d.B
}

// Compare tells in what two trees differ, each znode before what is below it, siblings
// by name. Of what it cannot see of one tree it says nothing but that. A failure of one
// comes last.
func Compare(a, b Tree) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		as, bs := begun(a), begun(b)
		defer as.stop()
		defer bs.stop()
		for {
			if err := cmp.Or(as.failure(), bs.failure()); err != nil {
				yield(Difference{}, err)
				return
			}
			if as.over && bs.over {
				return
			}
			if d, differs := meet(as, bs); differs && !yield(d, nil) {
				return
			}
		}
	}
}

// meet takes what comes next, of one of the trees or both.
func meet(a, b *side) (d Difference, differs bool) {
	order := a.against(b)
	if order <= 0 {
		d.A, d.Below, d.Err = a.node, a.below, a.err
		a.step()
	}
	if order >= 0 {
		d.B, d.Below, d.Err = b.node, b.below, cmp.Or(d.Err, b.err)
		b.step()
	}
	switch {
	case order < 0 && b.hides(d.Below), order > 0 && a.hides(d.Below):
		return d, false
	case order == 0 && d.Err == nil:
		differs = d.Differs()
		return d, differs
	}
	return d, true
}

// side is one of the trees while they are compared.
type side struct {
	Tree
	next   func() (*dump.Znode, error, bool)
	stop   func()
	node   *dump.Znode
	below  string
	err    error
	over   bool
	hidden string // what begins with it cannot be seen; may be empty
}

func begun(t Tree) *side {
	s := &side{Tree: t}
	s.next, s.stop = iter.Pull2(t.Nodes)
	s.step()
	return s
}

// step goes on to the next znode.
func (s *side) step() {
	if s.err != nil {
		s.hidden = s.below + "/"
	}
	var more bool
	s.node, s.err, more = s.next()
	if s.over = !more; s.node != nil {
		s.below = s.Below(s.node.Path)
	}
}

// failure is why the tree was not read to its end.
func (s *side) failure() error {
	if s.node == nil {
		return s.err
	}
	return nil
}

// hides reports whether the path is below what cannot be seen.
func (s *side) hides(below string) bool {
	return s.hidden != "" && strings.HasPrefix(below, s.hidden)
}

// against compares where two trees are.
func (s *side) against(other *side) int {
	switch {
	case s.over:
		return 1
	case other.over:
		return -1
	}
	return dump.InOrder(s.below, other.below)
}

func aspects(a, b *dump.Znode) (differs Aspect) {
	if !SameData(a.Data, b.Data) {
		differs |= DataDiffers
	}
	if a.ACL != nil && b.ACL != nil && !SameACL(a.ACL, b.ACL) {
		differs |= ACLDiffers
	}
	if a.Kind != b.Kind && (a.Kind == dump.Ephemeral || b.Kind == dump.Ephemeral || a.Kind != dump.Persistent && b.Kind != dump.Persistent) {
		differs |= KindDiffers
	}
	return differs
}

// SameData tells null from empty data.
func SameData(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// SameACL compares access control lists, in which the order says nothing.
func SameACL(a, b []zk.ACL) bool {
	if slices.Equal(a, b) {
		return true
	}
	return slices.Equal(sortedACL(a), sortedACL(b))
}

func sortedACL(acl []zk.ACL) []zk.ACL {
	acl = slices.SortedFunc(slices.Values(acl), func(x, y zk.ACL) int {
		return cmp.Or(strings.Compare(x.Scheme, y.Scheme), strings.Compare(x.ID, y.ID), cmp.Compare(x.Perms, y.Perms))
	})
	return slices.Compact(acl)
}
