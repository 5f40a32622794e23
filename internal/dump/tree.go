package dump

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Tree is a kept tree. In memory are its paths and access control lists; all else is in
// a spool, so that what is given out is what was verified. It is safe for several
// goroutines.
type Tree struct {
	Header  Header
	Trailer Trailer
	Form    Form

	nodes []node // parents first, siblings by name
	acls  [][]zk.ACL
	spool spool
}

// node is a znode in the index.
type node struct {
	path string
	at   int64 // in the spool; -1: the file does not have it
	end  int32 // of the subtree, in the index
}

// Root is the path of the topmost znode.
func (t *Tree) Root() string { return t.nodes[0].path }

// Len is how many znodes there are.
func (t *Tree) Len() int { return len(t.nodes) }

// Lacks is an error if something could not be read when the file was made: of what the
// file does not have nobody can say that it was not there.
func (t *Tree) Lacks() error {
	switch n := t.Trailer.Missed; n {
	case 0:
		return nil
	case 1:
		return errors.New("the file is incomplete: 1 znode and its descendants could not be read when it was written")
	default:
		return fmt.Errorf("the file is incomplete: %d znodes and their descendants could not be read when it was written", n)
	}
}

// Close lets go of the temporary file.
func (t *Tree) Close() error { return t.spool.close() }

// find gives the place of a path in the index.
func (t *Tree) find(path string) (int, bool) {
	return sort.Find(len(t.nodes), func(i int) int { return InOrder(path, t.nodes[i].path) })
}

// Has reports whether there is such a znode, and how many are below it.
func (t *Tree) Has(path string) (below int, ok bool) {
	i, ok := t.find(path)
	if !ok {
		return 0, false
	}
	return int(t.nodes[i].end) - i - 1, true
}

// Names are those of a znode's children, sorted.
func (t *Tree) Names(path string) ([]string, bool) {
	i, ok := t.find(path)
	if !ok {
		return nil, false
	}
	return t.names(i), true
}

func (t *Tree) names(i int) []string {
	var names []string
	above := len(t.nodes[i].path) + 1
	if t.nodes[i].path == "/" {
		above = 1
	}
	for at := i + 1; at < int(t.nodes[i].end); at = int(t.nodes[at].end) {
		names = append(names, t.nodes[at].path[above:])
	}
	return names
}

// MadeUp tells that a znode is not in the file, but others below it are.
func (t *Tree) MadeUp(path string) bool {
	i, ok := t.find(path)
	return ok && t.nodes[i].at < 0
}

// children is how many a znode has.
func (t *Tree) children(i int) (n int) {
	for at := i + 1; at < int(t.nodes[i].end); at = int(t.nodes[at].end) {
		n++
	}
	return n
}

// ErrNone says that there is no such znode.
var ErrNone = errors.New("the file does not contain this znode")

// Znode gives a znode, with its data if that is wished.
func (t *Tree) Znode(path string, data bool) (*Znode, error) {
	i, ok := t.find(path)
	if !ok {
		return nil, ErrNone
	}
	return t.znode(&t.spool, i, data)
}

// Znodes goes over a subtree: parents first, siblings by name.
func (t *Tree) Znodes(root string) iter.Seq2[*Znode, error] {
	return func(yield func(*Znode, error) bool) {
		i, ok := t.find(root)
		if !ok {
			yield(nil, ErrNone)
			return
		}
		from := &ahead{s: &t.spool}
		for end := int(t.nodes[i].end); i < end; i++ {
			z, err := t.znode(from, i, true)
			if !yield(z, err) || err != nil {
				return
			}
		}
	}
}

// fixed is how long a record in the spool is without data.
const fixed = 1 + 8 + 4 + 1 + 68 + 4

func (t *Tree) znode(from interface{ read([]byte, int64) error }, i int, data bool) (*Znode, error) {
	n := t.nodes[i]
	z := &Znode{Path: n.path}
	if n.at < 0 {
		return z, nil
	}
	var head [fixed]byte
	if err := from.read(head[:], n.at); err != nil {
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
		if t.Form == Snapshot { // it has creations only, of which servers count what was deleted since twice
			st.Cversion = 2*st.Cversion - st.NumChildren
		}
		z.Stat = st
	}
	if size := d.Int(); size >= 0 && data {
		z.Data = make([]byte, size)
		if err := from.read(z.Data, n.at+fixed); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// builder makes a Tree.
type builder struct {
	t      *Tree
	acls   map[string]int32 // places in the Tree's
	sorted bool
	file   *counted
	held   int64 // bytes in memory
}

func newBuilder(form Form, file *counted) *builder {
	return &builder{t: &Tree{Form: form}, acls: map[string]int32{}, sorted: true, file: file}
}

// What an index takes of a znode and of an entry of an access control list, besides text.
const (
	nodeSize = 32
	aclSize  = 40
)

// hold takes note of what stays in memory.
func (b *builder) hold(bytes int) error {
	b.held += int64(bytes)
	return b.file.room(b.held, roomAtMost, "in memory")
}

// sizeOf is about what an access control list takes.
func sizeOf(acl []zk.ACL) int {
	size := aclSize * (len(acl) + 1)
	for _, a := range acl {
		size += len(a.Scheme) + len(a.ID)
	}
	return size
}

// add takes a znode, in any order.
func (b *builder) add(z *Znode) error {
	if err := checkPath(z.Path); err != nil {
		return err
	}
	if len(z.Data) > maxData {
		return fmt.Errorf("the data of %s (%d bytes) exceeds the limit of %d bytes", z.Path, len(z.Data), maxData)
	}
	if last := len(b.t.nodes) - 1; last >= 0 && InOrder(b.t.nodes[last].path, z.Path) >= 0 {
		b.sorted = false
	}
	acl, err := b.acl(z.ACL)
	if err == nil {
		err = b.hold(nodeSize + len(z.Path))
	}
	if err != nil {
		return err
	}
	b.t.nodes = append(b.t.nodes, node{path: z.Path, at: b.t.spool.size})
	e := jute.Encoder{B: make([]byte, 0, fixed)}
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
	e.Int(int32(len(z.Data)), 0) // children are counted
	e.Long(st.Pzxid)
	if err := b.file.room(b.t.spool.size+int64(fixed+len(z.Data)), spoolAtMost, "in a temporary file"); err != nil {
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

// acl gives the place of an access control list; -1 of an unknown one.
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
		err = b.hold(len(e.B) + sizeOf(acl))
	}
	return at, err
}

// done gives the Tree. With fill, znodes that have others below them and are missing
// are made up; otherwise that is an error, as it always is that a path is there twice.
func (b *builder) done(fill bool) (*Tree, error) {
	if err := b.t.spool.flush(); err != nil {
		return nil, err
	}
	if len(b.t.nodes) == 0 {
		return nil, errors.New("the file does not contain any znodes")
	}
	if !b.sorted {
		b.sort()
	}
	if fill {
		if err := b.fill(); err != nil {
			return nil, err
		}
	}
	return b.t, b.t.index()
}

func (b *builder) sort() {
	slices.SortStableFunc(b.t.nodes, func(x, y node) int { return InOrder(x.path, y.path) })
}

// first leaves of each znode the first that was added.
func (b *builder) first() {
	b.sort()
	b.t.nodes = slices.CompactFunc(b.t.nodes, func(x, y node) bool { return x.path == y.path })
	b.sorted = true
}

// maxFilled bounds what is made up: a single path may be below many.
const maxFilled = 100_000

// fill makes up the parents that are missing below the lowest znode that has all others
// below it.
func (b *builder) fill() error {
	nodes := b.t.nodes
	top := nodes[0].path
	for last := nodes[len(nodes)-1].path; !Within(last, top); {
		top = Parent(top)
	}
	// The folders on the way to the znode before are all there.
	way := []string{}
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
			missing = append(missing, node{path: up, at: -1})
			way = append(way, up)
		}
		if len(missing) > maxFilled {
			return fmt.Errorf("more than %d parent znodes are missing from the file", maxFilled)
		}
		way = append(way, n.path)
	}
	if len(missing) > 0 {
		b.t.nodes = append(nodes, missing...)
		b.sort()
	}
	return nil
}

// index finds where subtrees end, and what does not belong to any.
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

// Within reports whether a path is another one or below it.
func Within(path, root string) bool {
	if root == "/" {
		return true
	}
	rest, is := strings.CutPrefix(path, root)
	return is && (rest == "" || rest[0] == '/')
}

// InOrder compares two paths by the order of a walk: name by name.
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
