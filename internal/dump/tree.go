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
	path   string
	offset int64 // offset of the znode's record in the spool; -1 if the znode is not in the file
	end    int32 // index after the last node of the znode's subtree
}

// Root returns the path of the znode at the top of the tree.
func (t *Tree) Root() string { return t.nodes[0].path }

// Len returns the number of znodes.
func (t *Tree) Len() int { return len(t.nodes) }

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

// children returns the number of children of the znode with index i in t.nodes.
func (t *Tree) children(i int) (n int) {
	for at := i + 1; at < int(t.nodes[i].end); at = int(t.nodes[at].end) {
		n++
	}
	return n
}

// errNone means that the file does not contain the requested znode.
var errNone = errors.New("the file does not contain this znode")

// Znode returns a znode.
func (t *Tree) Znode(path string) (*Znode, error) {
	i, ok := t.find(path)
	if !ok {
		return nil, errNone
	}
	return t.znode(&t.spool, i)
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
		for end := int(t.nodes[i].end); i < end; i++ {
			z, err := t.znode(from, i)
			if !yield(z, err) || err != nil {
				return
			}
		}
	}
}

// recordSize is the size of a znode's record in the spool, in bytes, without the znode's data.
const recordSize = 1 + 8 + 4 + 1 + 68 + 4

func (t *Tree) znode(from interface{ read([]byte, int64) error }, i int) (*Znode, error) {
	n := t.nodes[i]
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
		st.NumChildren = int32(t.children(i))
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
	b.t.Header, b.t.Trailer = f.Header, f.Trailer
	several := f.Part > 1
	if several {
		b.keepFirst()
	}
	return b.finish(several)
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

// finish returns the Tree. If fill is true, it adds the missing parents of znodes; otherwise, a
// missing parent is an error. Two znodes with the same path are always an error.
func (b *builder) finish(fill bool) (*Tree, error) {
	if err := b.t.spool.flush(); err != nil {
		return nil, err
	}
	if !b.sorted {
		b.sort()
	}
	if fill {
		if err := b.addMissingParents(); err != nil {
			return nil, err
		}
	}
	return b.t, b.t.index()
}

func (b *builder) sort() {
	slices.SortStableFunc(b.t.nodes, func(x, y node) int { return InOrder(x.path, y.path) })
}

// keepFirst keeps only the first of several znodes that were added with the same path.
func (b *builder) keepFirst() {
	b.sort()
	b.t.nodes = slices.CompactFunc(b.t.nodes, func(x, y node) bool { return x.path == y.path })
	b.sorted = true
}

// maxMissing is the maximum number of missing parents that are added to a tree. Even a single path
// may have many parents.
const maxMissing = 100_000

// addMissingParents adds the missing ancestors of the znodes, up to the lowest common ancestor of
// all znodes.
func (b *builder) addMissingParents() error {
	nodes := b.t.nodes
	top := nodes[0].path
	for last := nodes[len(nodes)-1].path; !Within(last, top); {
		top = Parent(top)
	}
	way := []string{} // the ancestors of the current znode, all of which exist
	var missing []node
	for _, n := range nodes {
		for len(way) > 0 && !Within(n.path, way[len(way)-1]) {
			way = way[:len(way)-1]
		}
		var lack []string
		for up := Parent(n.path); up != "" && Within(up, top) && (len(way) == 0 || way[len(way)-1] != up); up = Parent(up) {
			lack = append(lack, up)
		}
		for _, up := range slices.Backward(lack) {
			missing = append(missing, node{path: up, offset: -1})
			way = append(way, up)
		}
		if len(missing) > maxMissing {
			return fmt.Errorf("more than %d parent znodes are missing from the file", maxMissing)
		}
		way = append(way, n.path)
	}
	if len(missing) > 0 {
		b.t.nodes = append(nodes, missing...)
		b.sort()
	}
	return nil
}

// index sets the field end of each node to the end of the node's subtree. It returns an error if
// two nodes have the same path or if a parent is missing.
func (t *Tree) index() error {
	var way []int
	leave := func(until int, path string) {
		for len(way) > 0 && (path == "" || !Within(path, t.nodes[way[len(way)-1]].path)) {
			t.nodes[way[len(way)-1]].end = int32(until)
			way = way[:len(way)-1]
		}
	}
	for i, n := range t.nodes {
		if i > 0 && t.nodes[i-1].path == n.path {
			return fmt.Errorf("the file contains %s twice", n.path)
		}
		leave(i, n.path)
		if i > 0 && (len(way) == 0 || t.nodes[way[len(way)-1]].path != Parent(n.path)) {
			return fmt.Errorf("the file contains the znode %s, but not its parent", n.path)
		}
		way = append(way, i)
	}
	leave(len(t.nodes), "")
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
