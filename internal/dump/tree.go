package dump

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// A Tree is the verified contents of a file. It holds paths and ACLs in memory, and everything else
// in a spool. Callers therefore get the data that was verified, even if the file changes. A Tree is
// safe for concurrent use.
type Tree struct {
	Header  Header
	Trailer Trailer

	nodes    []node     // parents before their children, siblings sorted by name
	acls     [][]zk.ACL // distinct ACLs of the znodes
	spool    spool      // one record for each znode
	snapshot bool       // whether the file is a ZooKeeper snapshot
}

// A node is the entry of one znode in the index of a Tree.
type node struct {
	path     string
	offset   int64 // offset of the znode's record in the spool; -1 if the znode is not in the file
	children int32 // number of children
}

// Root returns the path of the znode at the top of the tree.
func (t *Tree) Root() string { return t.nodes[0].path }

// Close removes the temporary file of the tree.
func (t *Tree) Close() error { return t.spool.close() }

// find returns the index of a path in t.nodes.
func (t *Tree) find(path string) (int, bool) {
	return sort.Find(len(t.nodes), func(i int) int { return InOrder(path, t.nodes[i].path) })
}

// Has reports whether a znode exists in the tree.
func (t *Tree) Has(path string) bool {
	_, ok := t.find(path)
	return ok
}

// MadeUp reports whether a znode was added to the tree only because the file contains descendants
// of it.
func (t *Tree) MadeUp(path string) bool {
	i, ok := t.find(path)
	return ok && t.nodes[i].offset < 0
}

// errNone means that the file does not contain the requested znode.
var errNone = errors.New("the file does not contain this znode")

// Znode returns a znode.
func (t *Tree) Znode(path string) (*Znode, error) {
	i, ok := t.find(path)
	if !ok {
		return nil, errNone
	}
	return t.znode(&t.spool, t.nodes[i])
}

// Znodes yields the znodes of the subtree at root. Parents come before their children, and siblings
// are sorted by name.
func (t *Tree) Znodes(root string) Znodes {
	return func(yield func(*Znode, error) bool) {
		i, ok := t.find(root)
		if !ok {
			yield(nil, errNone)
			return
		}
		from := &spoolReader{s: &t.spool}
		for _, n := range t.nodes[i:] {
			if !Within(n.path, root) {
				return
			}
			z, err := t.znode(from, n)
			if !yield(z, err) || err != nil {
				return
			}
		}
	}
}

// recordSize is the size of a znode's record in the spool, in bytes, without the znode's data.
const recordSize = 1 + 8 + 4 + 1 + 68 + 4

// znode reads the record of a znode.
func (t *Tree) znode(from interface{ read([]byte, int64) error }, n node) (*Znode, error) {
	z := &Znode{Path: n.path}
	if n.offset < 0 {
		return z, nil
	}
	var head [recordSize]byte
	if err := from.read(head[:], n.offset); err != nil {
		return nil, err
	}
	d := jute.NewDecoder(head[:])
	z.Kind, z.TTL = Kind(d.Byte()), time.Duration(d.Long())
	if acl := d.Int(); acl >= 0 {
		z.ACL = t.acls[acl]
	}
	known := d.Bool()
	st := d.Stat()
	if known {
		st.NumChildren = n.children
		// In a snapshot, Cversion is the number of created children. Servers show the number of
		// created and deleted children.
		if t.snapshot {
			st.Cversion = 2*st.Cversion - st.NumChildren
		}
		z.Stat = st
	}
	if size := d.Int(); size >= 0 {
		z.Data = make([]byte, size)
		if err := from.read(z.Data, n.offset+recordSize); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// readTree reads the complete file.
func readTree(f *File) (t *Tree, err error) {
	b := &builder{t: &Tree{snapshot: f.Snapshot}, acls: map[string]int32{}, sorted: true, file: f.file}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.t.Close())
		}
	}()
	if err := f.each(b.add); err != nil {
		return nil, err
	}
	if err := b.t.spool.flush(); err != nil {
		return nil, err
	}
	b.t.Header, b.t.Trailer = f.Header, f.Trailer
	several := f.Part > 1
	if !b.sorted {
		slices.SortStableFunc(b.t.nodes, func(x, y node) int { return InOrder(x.path, y.path) })
	}
	if several { // the first of several znodes with the same path counts
		b.t.nodes = slices.CompactFunc(b.t.nodes, func(x, y node) bool { return x.path == y.path })
	}
	return b.t, b.t.index(several)
}

// A builder builds a Tree from znodes that are added in any order.
type builder struct {
	t      *Tree
	acls   map[string]int32 // indexes in t.acls, by encoded ACL
	sorted bool             // whether all znodes so far were added in the order of a walk
	file   *sourceFile
}

// Estimated memory for a znode in the index, and for an ACL entry, in bytes. The memory for their
// strings is counted separately.
const (
	nodeSize = 32
	aclSize  = 40
)

// sizeOf returns an estimate of the memory for an ACL, in bytes.
func sizeOf(acl []zk.ACL) int {
	size := aclSize * (len(acl) + 1)
	for _, a := range acl {
		size += len(a.Scheme) + len(a.ID)
	}
	return size
}

// add adds a znode to the tree. The order of the znodes does not matter.
func (b *builder) add(z *Znode) error {
	if last := len(b.t.nodes) - 1; last >= 0 && InOrder(b.t.nodes[last].path, z.Path) >= 0 {
		b.sorted = false
	}
	acl, err := b.acl(z.ACL)
	if err == nil {
		err = b.file.reserve(nodeSize + len(z.Path))
	}
	if err != nil {
		return err
	}
	b.t.nodes = append(b.t.nodes, node{path: z.Path, offset: b.t.spool.size})
	e := jute.Encoder{B: make([]byte, 0, recordSize)}
	e.Byte(byte(z.Kind))
	e.Long(int64(z.TTL))
	e.Int(acl)
	e.Bool(z.Stat != nil)
	st := z.Stat
	if st == nil {
		st = &zk.Stat{}
	}
	e.Long(st.Czxid, st.Mzxid, st.Ctime, st.Mtime)
	e.Int(st.Version, st.Cversion, st.Aversion)
	e.Long(st.EphemeralOwner)
	e.Int(int32(len(z.Data)), 0) // number of children, which is 0 because Tree.znode counts the children
	e.Long(st.Pzxid)
	if err := b.file.checkSize(b.t.spool.size+int64(recordSize+len(z.Data)), maxSpool, "in a temporary file"); err != nil {
		return err
	}
	size := int32(len(z.Data))
	if z.Data == nil {
		size = -1
	}
	e.Int(size)
	if err := b.t.spool.write(e.B); err != nil {
		return err
	}
	return b.t.spool.write(z.Data)
}

// acl returns the index of an ACL in t.acls, or -1 if the ACL is unknown. It adds the ACL to
// t.acls if necessary.
func (b *builder) acl(acl []zk.ACL) (at int32, err error) {
	if acl == nil {
		return -1, nil
	}
	var e jute.Encoder
	for _, a := range acl {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
	at, is := b.acls[string(e.B)]
	if !is {
		at = int32(len(b.t.acls))
		b.acls[string(e.B)] = at
		b.t.acls = append(b.t.acls, acl)
		err = b.file.reserve(len(e.B) + sizeOf(acl))
	}
	return at, err
}

// maxMissing is the maximum number of missing parents that are added to a tree. Even a single path
// may have many parents.
const maxMissing = 100_000

// index counts the children of each node. If fill is true, it adds the missing ancestors of the nodes,
// up to the lowest common ancestor of all nodes. Otherwise, a missing parent is an error. Two nodes
// with the same path are always an error.
func (t *Tree) index(fill bool) error {
	found := t.nodes
	top := found[0].path
	if fill {
		t.nodes = make([]node, 0, len(found))
		for last := found[len(found)-1].path; !Within(last, top); {
			top = Parent(top)
		}
	} else {
		t.nodes = found[:0]
	}
	var way []int // index of the latest node, preceded by those of its ancestors
	parent := func() *node {
		if len(way) == 0 {
			return &node{}
		}
		return &t.nodes[way[len(way)-1]]
	}
	add := func(n node) {
		parent().children++
		way = append(way, len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
	missing := 0
	for i, n := range found {
		if i > 0 && t.nodes[len(t.nodes)-1].path == n.path {
			return fmt.Errorf("the file contains %s twice", n.path)
		}
		for len(way) > 0 && !Within(n.path, parent().path) {
			way = way[:len(way)-1]
		}
		if !fill && i > 0 && parent().path != Parent(n.path) {
			return fmt.Errorf("the file contains the znode %s, but not its parent", n.path)
		}
		var lack []string
		for up := Parent(n.path); up != "" && Within(up, top) && parent().path != up; up = Parent(up) {
			lack = append(lack, up)
		}
		if missing += len(lack); missing > maxMissing {
			return fmt.Errorf("more than %d parent znodes are missing from the file", maxMissing)
		}
		for _, up := range slices.Backward(lack) {
			add(node{path: up, offset: -1})
		}
		add(n)
	}
	return nil
}

// Within reports whether path is root or a descendant of root.
func Within(path, root string) bool {
	if root == "/" {
		return true
	}
	rest, is := strings.CutPrefix(path, root)
	return is && (rest == "" || rest[0] == '/')
}

// InOrder compares two paths in the order in which a walk visits them: name by name.
func InOrder(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
