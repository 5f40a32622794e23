package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Znode is a znode for Load, with everything that a server stores about it.
type Znode struct {
	Path string
	Data []byte   // nil means null
	ACL  []zk.ACL // if it is empty, everybody has all permissions
	// Stat contains the zxids, times and versions, and the owner of an ephemeral znode. Its other
	// fields are ignored.
	Stat      zk.Stat
	Creates   int32 // number of children that the znode has ever had; the next sequence number
	Container bool
	TTL       time.Duration // time to live, or 0
}

// Errors of Load.
var (
	ErrLoaded   = errors.New("the znode is there twice")
	errNoParent = errors.New("the parent of the znode is missing")
	ErrTooLarge = errors.New("the tree needs too much memory")
)

// Load adds a znode to the tree of a server to which no client has connected yet. The znode keeps
// its zxids, times, versions and owner. Its parent must have been loaded before, unless the parent is
// an ancestor of top. In that case, Load adds the parent as an empty znode, which a later call of Load
// may set. Load also sets the root and the system nodes.
//
// The session that owns an ephemeral znode need not exist. Then the znode remains until a client
// deletes it.
func (s *Server) Load(z *Znode, top string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unset == nil {
		s.unset = make(map[string]struct{})
		for path := range s.tree.nodes {
			s.unset[path] = struct{}{}
		}
	}
	if !validPath(z.Path) {
		return fmt.Errorf("sandbox: invalid path %q", z.Path)
	}
	_, unset := s.unset[z.Path]
	if s.tree.nodes[z.Path] != nil && !unset {
		return ErrLoaded
	}
	if err := s.loadParents(parentOf(z.Path), top); err != nil {
		return err
	}
	delete(s.unset, z.Path)
	s.tree.load(z)
	s.zxid = max(s.zxid, z.Stat.Czxid, z.Stat.Mzxid, z.Stat.Pzxid) // later changes have larger zxids
	if s.tree.bytes+s.tree.acls.bytes > s.opt.MaxTreeBytes {
		return ErrTooLarge
	}
	return nil
}

// loadParents adds the znode at path and its missing ancestors, which must be ancestors of top.
func (s *Server) loadParents(path, top string) error {
	var missing []string
	for ; s.tree.nodes[path] == nil; path = parentOf(path) {
		if !strings.HasPrefix(top, path+"/") {
			return errNoParent
		}
		missing = append(missing, path)
	}
	for _, path := range slices.Backward(missing) {
		s.tree.load(&Znode{Path: path})
		s.unset[path] = struct{}{}
	}
	return nil
}

// load adds a znode to the tree, or sets one that exists. The parent must exist.
func (t *tree) load(z *Znode) {
	n := t.nodes[z.Path]
	if n == nil {
		n = &node{}
		t.nodes[z.Path] = n
		t.nodes[parentOf(z.Path)].addChild(nameOf(z.Path), n)
		t.account(z.Path, 1, 0)
	} else {
		t.acls.release(n.acl)
	}
	t.account("", 0, len(z.Data)-len(n.data))
	n.data, n.acl = z.Data, t.retainLoaded(z.ACL)
	n.czxid, n.mzxid, n.pzxid = z.Stat.Czxid, z.Stat.Mzxid, z.Stat.Pzxid
	n.ctime, n.mtime = z.Stat.Ctime, z.Stat.Mtime
	n.version, n.aver, n.creates = z.Stat.Version, z.Stat.Aversion, z.Creates
	switch {
	case z.Container:
		n.owner = ownerContainer
	case z.TTL > 0:
		n.owner = ttlMask | z.TTL.Milliseconds()
	default:
		n.owner = z.Stat.EphemeralOwner
	}
	t.index(z.Path, n.owner)
	if target, name, ok := quotaTarget(z.Path); ok && name == limitsName {
		t.quotas[target] = struct{}{}
	}
}

// retainLoaded returns the shared copy of an ACL. Most znodes have the same ACL as the znode before
// them, for which it is much faster than aclCache.retain.
func (t *tree) retainLoaded(list []zk.ACL) *aclList {
	same := func(a acl, b zk.ACL) bool { return a == acl{perms: b.Perms, id: id{b.Scheme, b.ID}} }
	if l := t.lastLoaded; l != nil && l.refs > 0 && slices.EqualFunc(l.entries, list, same) {
		l.refs++
		return l
	}
	entries := make([]acl, len(list))
	for i, a := range list {
		entries[i] = acl{perms: a.Perms, id: id{a.Scheme, a.ID}}
	}
	t.lastLoaded = t.acls.retain(entries)
	return t.lastLoaded
}
