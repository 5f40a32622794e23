package zkconn

import (
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// A footprint describes which znode a request reads or changes, and in which way. The zero value
// means that the request may concern any znode.
type footprint struct {
	path string
	kind int
}

// Kinds of footprints: the part of a znode that a request reads or changes.
const (
	otherFootprint    int = iota // unknown; the request may concern any znode
	readFootprint                // reads the data, ACL, Stat or children of one znode
	contentFootprint             // writes the data of one znode
	lifeFootprint                // creates or deletes one znode
	sequenceFootprint            // creates a sequential znode, with the parent's next number
)

// footprint returns the footprint of an operation. The kind is otherFootprint for reads that set a
// watch, and for multis with several changes.
func (o *Op[T]) footprint() footprint {
	kind, code := otherFootprint, o.code
	if code == jute.OpMulti && len(o.changes) == 1 { // a multi with one change; checks of a Fence do not count
		code = o.changes[0].code
	}
	switch code {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2:
		if o.effect == nil {
			kind = readFootprint
		}
	case jute.OpSetData:
		kind = contentFootprint
	case jute.OpDelete:
		kind = lifeFootprint
	case jute.OpCreate:
		kind = lifeFootprint
		if len(o.changes) != 1 || o.changes[0].flags&zk.FlagSequence != 0 {
			kind = sequenceFootprint
		}
	}
	return footprint{o.path, kind}
}

// Commutes reports whether the requests of t and other have the same effects and results in
// either order, provided that both succeed. Differences in zxids and times do not count.
func (t *Trip) Commutes(other *Trip) bool { return t.footprint.commutes(other.footprint) }

func (f footprint) commutes(g footprint) bool {
	switch {
	case f.kind == otherFootprint || g.kind == otherFootprint:
		return false
	case f.kind == readFootprint && g.kind == readFootprint:
		return true
	case f.path == g.path:
		return false
	case f.kind >= lifeFootprint && path.Dir(f.path) == g.path, g.kind >= lifeFootprint && path.Dir(g.path) == f.path:
		return false // creating or deleting a child changes the parent's Stat and list of children
	case f.kind == sequenceFootprint && g.kind >= lifeFootprint, g.kind == sequenceFootprint && f.kind >= lifeFootprint:
		return path.Dir(f.path) != path.Dir(g.path)
	}
	return true
}
