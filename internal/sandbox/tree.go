package sandbox

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

const (
	zkPath     = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	configPath = "/zookeeper/config"

	// nodeCost is the estimated memory of a node in bytes, without its path and data. It includes
	// the node itself, its entries in two maps, and the rounding of sizes by the memory allocator.
	nodeCost = 320
)

// Special values of node.owner: ownerContainer marks a container, and ttlMask plus the time to live
// marks a TTL node. Neither value can be a session id, because the first byte of every session id
// is 1.
const (
	ownerContainer int64 = -1 << 63
	ttlMask        int64 = -1 << 56 // the first byte is 0xff
)

func isTTL(owner int64) bool     { return owner&ttlMask == ttlMask }
func isSession(owner int64) bool { return owner != 0 && owner != ownerContainer && !isTTL(owner) }

// A node is a znode in the tree. Its path is its key in tree.nodes.
type node struct {
	data         []byte // nil means null, which ZooKeeper distinguishes from empty data
	acl          *aclList
	children     map[string]*node // child nodes by name; nil if there are none
	czxid, mzxid int64
	pzxid        int64
	ctime, mtime int64
	owner        int64 // owner of an ephemeral node, a special value for containers and TTL nodes, or 0
	version      int32
	aver         int32
	creates      int32 // number of children ever created; ZooKeeper stores it as the node's cversion
}

// encodeStat writes the Stat of the node. The cversion in a Stat counts created and deleted
// children, although the node stores only the number of those created.
func (n *node) encodeStat(e *jute.Encoder) {
	owner, children := int64(0), int32(len(n.children))
	if isSession(n.owner) {
		owner = n.owner
	}
	e.B = slices.Grow(e.B, jute.StatLen)
	e.Long(n.czxid, n.mzxid, n.ctime, n.mtime)
	e.Int(n.version, 2*n.creates-children, n.aver)
	e.Long(owner)
	e.Int(int32(len(n.data)), children)
	e.Long(n.pzxid)
}

// A tree contains all znodes by path, with several indexes. The root has the keys "/" and "",
// because parentOf("/a") returns "".
type tree struct {
	nodes      map[string]*node
	ephemerals map[int64]map[string]struct{} // paths of ephemeral nodes, by session id
	reapable   map[string]struct{}           // paths of containers and TTL nodes
	quotas     map[string]struct{}           // paths of nodes with a quota
	// lastParent is the parent of the node that find returned last, or nil if that parent was
	// deleted.
	lastParent     *node
	lastParentPath []byte // path of lastParent
	acls           aclCache
	lastLoaded     *aclList // ACL of the znode that load has added last
	bytes          int64    // estimated memory of the tree, in bytes
	// dataBytes is the total length of all paths and data. mntr shows it as approximate_data_size.
	dataBytes int64
	as        Version
	watches   [2]watchTable
}

// Indices in tree.watches. An exists or getData request registers a watch in dataWatches, a
// getChildren request in childWatches, and an addWatch request in both.
const (
	dataWatches = iota
	childWatches
)

func newTree(opt *Options) *tree {
	t := &tree{
		as:         opt.As,
		nodes:      make(map[string]*node),
		ephemerals: make(map[int64]map[string]struct{}),
		reapable:   make(map[string]struct{}),
		quotas:     make(map[string]struct{}),
	}
	for i := range t.watches {
		t.watches[i] = watchTable{paths: map[string]map[*conn]watchModes{}, conns: map[*conn]map[string]struct{}{}}
	}
	open := []acl{{perms: permAll, id: world}}
	// As in ZooKeeper, the system nodes do not count as created children. In an empty tree, the
	// cversion of the root is therefore -1, and that of /zookeeper is -2.
	root := &node{data: []byte{}, acl: t.acls.retain(open)}
	t.dataBytes = int64(len("/"))
	t.nodes["/"], t.nodes[""] = root, root
	paths, data := opt.systemNodes()
	for _, p := range paths {
		n := &node{data: []byte(data[p]), acl: t.acls.retain(open)}
		if p == configPath {
			t.setACL(n, []acl{{perms: permRead, id: world}}, -1)
		}
		t.nodes[p] = n
		t.nodes[parentOf(p)].addChild(nameOf(p), n)
		t.dataBytes += int64(len(p) + len(data[p]))
		t.bytes += int64(len(data[p]))
	}
	return t
}

// parentOf returns the path of a node's parent, or "" for a child of the root.
func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// nameOf returns the last component of a path.
func nameOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func (n *node) addChild(name string, child *node) {
	if n.children == nil {
		n.children = make(map[string]*node)
	}
	n.children[name] = child
}

// find returns the node at path, or nil if there is none. It is faster than t.nodes[path] for
// clients that read siblings one after another. It remembers their parent, and looks each sibling
// up in the parent's small map of children.
func (t *tree) find(path []byte) *node {
	slash := bytes.LastIndexByte(path, '/')
	if slash < 2 { // the root, a child of the root, or an invalid path
		return t.nodes[string(path)]
	}
	if t.lastParent == nil || !bytes.Equal(t.lastParentPath, path[:slash]) {
		t.lastParent, t.lastParentPath = t.nodes[string(path[:slash])], append(t.lastParentPath[:0], path[:slash]...)
	}
	if t.lastParent == nil {
		return nil
	}
	return t.lastParent.children[string(path[slash+1:])]
}

// create adds a node to the tree. The caller has checked that the parent exists and the node does
// not. The caller must then call afterCreate, which fires the watches.
func (t *tree) create(x *txn, zxid, now int64) *node {
	parent := t.nodes[parentOf(x.path)]
	n := &node{
		data: x.data, acl: t.acls.retain(x.acl), owner: x.owner,
		czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: now, mtime: now,
	}
	t.nodes[x.path] = n
	parent.addChild(nameOf(x.path), n)
	if x.creates > parent.creates {
		parent.creates, parent.pzxid = x.creates, zxid
	}
	t.index(x.path, n.owner)
	t.account(x.path, 1, len(n.data))
	return n
}

// afterCreate updates quotas and fires watches for a node that was just created. As in ZooKeeper,
// it must be called after the Stat for the reply has been encoded.
func (t *tree) afterCreate(path string, n *node) {
	t.quotaCreated(path, n)
	parent := parentOf(path)
	t.fire(dataWatches, eventNodeCreated, n.czxid, path, n.acl, nil)
	t.fire(childWatches, eventNodeChildrenChanged, n.czxid, cmp.Or(parent, "/"), t.nodes[parent].acl, nil)
}

// delete removes the node at path and fires its watches.
func (t *tree) delete(path string, zxid int64) {
	n, parent := t.nodes[path], t.nodes[parentOf(path)]
	delete(parent.children, nameOf(path))
	if len(parent.children) == 0 {
		parent.children = nil // a Go map does not free memory when its entries are deleted
	}
	parent.pzxid = max(parent.pzxid, zxid)
	delete(t.nodes, path)
	if n == t.lastParent {
		t.lastParent = nil
	}
	delete(t.reapable, path)
	// As in ZooKeeper, keep the session's set of paths until the session ends, even if it is empty.
	delete(t.ephemerals[n.owner], path)
	t.quotaDeleted(path, n)
	t.account(path, -1, -len(n.data))
	notified := t.fire(dataWatches, eventNodeDeleted, zxid, path, n.acl, nil)
	t.fire(childWatches, eventNodeDeleted, zxid, path, n.acl, notified)
	t.fire(childWatches, eventNodeChildrenChanged, zxid, cmp.Or(parentOf(path), "/"), parent.acl, nil)
	t.acls.release(n.acl)
}

// setData sets the data of a node and fires its watches.
func (t *tree) setData(path string, n *node, data []byte, version int32, zxid, now int64) {
	diff := len(data) - len(n.data)
	n.data, n.version, n.mzxid, n.mtime = data, version, zxid, now
	t.account("", 0, diff)
	t.quotaAdd(path, 0, int64(diff))
	t.fire(dataWatches, eventNodeDataChanged, zxid, path, n.acl, nil)
}

func (t *tree) setACL(n *node, list []acl, version int32) {
	old := n.acl
	n.acl, n.aver = t.acls.retain(list), version
	t.acls.release(old)
}

func (t *tree) account(path string, nodes, data int) {
	t.dataBytes += int64(nodes*len(path) + data)
	t.bytes += int64(nodes*(len(path)+nodeCost) + data)
}

func (t *tree) index(path string, owner int64) {
	switch {
	case isSession(owner):
		set := t.ephemerals[owner]
		if set == nil {
			set = make(map[string]struct{})
			t.ephemerals[owner] = set
		}
		set[path] = struct{}{}
	case owner != 0:
		t.reapable[path] = struct{}{}
	}
}

func sortedKeys[V any](set map[string]V) []string {
	names := slices.AppendSeq(make([]string, 0, len(set)), maps.Keys(set))
	slices.Sort(names)
	return names
}

// descendants returns the number of nodes below path. Like ZooKeeper, it counts all paths with the
// prefix path + "/". If path is "", it therefore also counts the root itself.
func (t *tree) descendants(path string) int32 {
	switch path {
	case "/":
		return int32(len(t.nodes) - 2) // all nodes except the root, which has two entries
	case "":
		return int32(len(t.nodes) - 1)
	}
	total := int32(0)
	t.walk(path, func(string, *node) { total++ })
	return total - 1
}

// walk calls visit for the node at path and all its descendants. It is not recursive, because a
// path of 1 MiB can have half a million components.
func (t *tree) walk(path string, visit func(string, *node)) {
	stack := []string{path}
	for len(stack) > 0 {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := t.nodes[p]
		if n == nil {
			continue
		}
		visit(p, n)
		for name := range n.children {
			stack = append(stack, strings.TrimSuffix(p, "/")+"/"+name)
		}
	}
}
