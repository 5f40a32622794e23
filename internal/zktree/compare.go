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

// An Aspect is a set of properties in which two znodes differ, stored as bits.
type Aspect int

// Properties of znodes that Compare compares.
const (
	DataDiffers Aspect = 1 << iota
	ACLDiffers
	KindDiffers // whether exactly one znode is ephemeral, or neither is persistent and their kinds differ
)

// A Difference describes a znode that differs between two trees, A and B, or that exists in only
// one of them.
type Difference struct {
	Path string      // path in A; if A does not contain the znode, the path that it would have there
	A, B *dump.Znode // the znode in each tree; nil if the tree does not contain it
	Aspect
	Err error // set if the znode is unreadable in A or B; its descendants are then not compared
}

// Differences is a sequence of differences. An error of reading one of the trees comes last.
type Differences = iter.Seq2[Difference, error]

// Differs sets d.Aspect and reports whether the two znodes differ.
func (d *Difference) Differs() bool {
	if d.A != nil && d.B != nil {
		d.Aspect = aspects(d.A, d.B)
		return d.Aspect != 0
	}
	return d.A != d.B
}

// Compare yields the differences between two trees. It compares the root of A with the root of B,
// even if their paths differ, and likewise their descendants. A znode comes before its descendants,
// and siblings are sorted by name. For a znode that is unreadable in either tree, Compare yields a
// Difference with Err set, and skips the descendants.
func Compare(a, b Tree) Differences {
	return func(yield func(Difference, error) bool) {
		for d, err := range Pairs(a, b) {
			same := err == nil && d.Err == nil && d.A != nil && d.B != nil && d.Aspect == 0
			if !same && !yield(d, err) {
				return
			}
		}
	}
}

// Pairs is like Compare, but also yields the znodes that are equal in both trees.
func Pairs(a, b Tree) Differences {
	return func(yield func(Difference, error) bool) {
		as, bs := newCursor(a, a.Root), newCursor(b, a.Root)
		defer as.stop()
		defer bs.stop()
		for {
			if err := cmp.Or(as.readError(), bs.readError()); err != nil {
				yield(Difference{}, err)
				return
			}
			if as.atEnd && bs.atEnd {
				return
			}
			if d, hidden := nextPair(as, bs); !hidden && !yield(d, nil) {
				return
			}
		}
	}
}

// nextPair takes the next znode from the cursor whose path comes first, or from both cursors if
// their paths are equal. It advances these cursors. hidden is true if the znode is below an
// unreadable znode of the other tree, and therefore cannot be compared.
func nextPair(a, b *cursor) (d Difference, hidden bool) {
	order := a.compare(b)
	if order <= 0 {
		d.A, d.Path, d.Err = a.node, a.path, a.err
		a.advance()
	}
	if order >= 0 {
		d.B, d.Path, d.Err = b.node, b.path, cmp.Or(d.Err, b.err)
		b.advance()
	}
	if order == 0 && d.Err == nil {
		d.Differs()
	}
	return d, order < 0 && b.hides(d.Path) || order > 0 && a.hides(d.Path)
}

// A cursor is a position in one of the two trees that Compare compares.
type cursor struct {
	Tree
	root   string // path that replaces the root of the tree in path and hidden
	next   func() (*dump.Znode, error, bool)
	stop   func()
	node   *dump.Znode
	path   string
	err    error
	atEnd  bool
	hidden string // path of the latest unreadable znode; empty if there was none yet
}

func newCursor(t Tree, root string) *cursor {
	s := &cursor{Tree: t, root: root}
	s.next, s.stop = iter.Pull2(t.Nodes)
	s.advance()
	return s
}

// advance moves the cursor to the next znode of the tree.
func (s *cursor) advance() {
	if s.err != nil {
		s.hidden = s.path
	}
	var more bool
	s.node, s.err, more = s.next()
	if s.atEnd = !more; s.node != nil {
		s.path = Rebase(s.node.Path, s.Root, s.root)
	}
}

// readError returns the error that ended the reading of the tree, or nil.
func (s *cursor) readError() error {
	if s.node == nil {
		return s.err
	}
	return nil
}

// hides reports whether a path is below the latest unreadable znode.
func (s *cursor) hides(path string) bool { return s.hidden != "" && dump.Within(path, s.hidden) }

// compare compares the paths of the cursors s and other in the order in which Compare yields
// differences. A cursor at the end of its tree comes last.
func (s *cursor) compare(other *cursor) int {
	switch {
	case s.atEnd:
		return 1
	case other.atEnd:
		return -1
	}
	return dump.InOrder(s.path, other.path)
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

// SameData reports whether a and b are the same znode data. Null data (nil) and empty data are
// different.
func SameData(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// SameACL reports whether two ACLs have the same entries, in any order.
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
