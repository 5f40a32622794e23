package dump

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// A replay applies logged transactions to a snapshot. A server continues to change its tree while
// it writes a snapshot, so the snapshot may already contain some of the logged changes. Like a
// server, a replay therefore skips a transaction that cannot be applied.
type replay struct {
	t          *Tree
	b          *builder
	from       int64              // zxid of the snapshot, which contains all transactions up to it
	last       int64              // zxid of the last transaction that was applied
	atLogStart bool               // whether the next transaction is the first of its log
	changed    map[string]*Znode  // changed znodes, by path; a deleted znode is nil
	ephemerals map[int64][]string // paths of ephemeral znodes, by session; nil until a session is closed
}

func newReplay(t *Tree, b *builder, zxid int64) *replay {
	b.t.snapshot = true
	return &replay{t: t, b: b, from: zxid, last: zxid, changed: map[string]*Znode{}}
}

// lookup returns a znode, or nil if the znode does not exist. The caller may change the znode.
func (r *replay) lookup(path string) (*Znode, error) {
	if z, is := r.changed[path]; is {
		return z, nil
	}
	z, err := r.t.Znode(path, true)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err == nil {
		err = r.put(asStored(z))
	}
	return z, err
}

// asStored returns the znode z with the Cversion that a snapshot stores. A Tree returns the value
// that servers show to clients instead.
func asStored(z *Znode) *Znode {
	if st := z.Stat; st != nil {
		st.Cversion = (st.Cversion + st.NumChildren) / 2
	}
	return z
}

func (r *replay) put(z *Znode) error {
	r.changed[z.Path] = z
	return r.b.reserve(nodeSize + len(z.Path) + len(z.Data))
}

// apply applies one transaction to the tree.
func (r *replay) apply(t *Txn) error {
	if t.Zxid <= r.from || t.Zxid < r.last {
		return nil
	}
	if next := r.last + 1; r.atLogStart && t.Zxid > next && t.Zxid>>32 == next>>32 {
		return fmt.Errorf("the transactions with the zxids %#x to %#x are missing from the logs", next, t.Zxid-1)
	}
	r.atLogStart, r.last = false, t.Zxid
	switch t.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return r.create(t)
	case jute.OpDelete, jute.OpDeleteContainer:
		return r.remove(t.Path, t.Zxid)
	case jute.OpSetData, jute.OpReconfig:
		z, err := r.lookup(t.Path)
		if z == nil || err != nil {
			return err
		}
		more := len(t.Data) - len(z.Data)
		z.Data = t.Data
		z.Stat.Version, z.Stat.Mzxid, z.Stat.Mtime = t.Version, t.Zxid, t.Time.UnixMilli()
		return r.b.reserve(more)
	case jute.OpSetACL:
		z, err := r.lookup(t.Path)
		if z == nil || err != nil {
			return err
		}
		z.ACL, z.Stat.Aversion = t.ACL, t.Version
	case TxnCloseSession:
		return r.closeSession(t)
	}
	return nil
}

func (r *replay) create(t *Txn) error {
	parent, err := r.lookup(Parent(t.Path))
	if parent == nil || err != nil {
		return err
	}
	if t.Parent > parent.Stat.Cversion {
		parent.Stat.Cversion, parent.Stat.Pzxid = t.Parent, t.Zxid
	}
	if z, err := r.lookup(t.Path); z != nil || err != nil {
		return err
	}
	z := &Znode{Path: t.Path, Kind: t.Kind, TTL: t.TTL, Data: t.Data, ACL: t.ACL, Stat: &zk.Stat{
		Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid, Ctime: t.Time.UnixMilli(), Mtime: t.Time.UnixMilli()}}
	if t.Kind == Ephemeral {
		z.Stat.EphemeralOwner = t.Session
		if r.ephemerals != nil {
			r.ephemerals[t.Session] = append(r.ephemerals[t.Session], t.Path)
		}
	}
	return r.put(z)
}

func (r *replay) remove(path string, zxid int64) error {
	z, err := r.lookup(path)
	if z == nil || err != nil {
		return err
	}
	parent, err := r.lookup(Parent(path))
	if parent != nil && err == nil {
		parent.Stat.Pzxid = max(parent.Stat.Pzxid, zxid)
	}
	r.changed[path] = nil
	return err
}

// closeSession deletes the ephemeral znodes of a session. It finds them itself if the transaction
// does not list them, as in logs of servers before 3.6.
func (r *replay) closeSession(t *Txn) error {
	if r.ephemerals == nil {
		if err := r.collectEphemerals(); err != nil {
			return err
		}
	}
	for _, path := range append(slices.Clone(t.Gone), r.ephemerals[t.Session]...) {
		z, err := r.lookup(path)
		if err == nil && z != nil && z.Stat.EphemeralOwner == t.Session {
			err = r.remove(path, t.Zxid)
		}
		if err != nil {
			return err
		}
	}
	delete(r.ephemerals, t.Session)
	return nil
}

// collectEphemerals finds the ephemeral znodes in the snapshot and in the changes so far, and
// stores their paths in r.ephemerals.
func (r *replay) collectEphemerals() error {
	r.ephemerals = map[int64][]string{}
	own := func(z *Znode) {
		if z != nil && z.Kind == Ephemeral {
			r.ephemerals[z.Stat.EphemeralOwner] = append(r.ephemerals[z.Stat.EphemeralOwner], z.Path)
		}
	}
	for z, err := range r.t.Znodes("/") {
		if err != nil {
			return err
		}
		own(z)
	}
	for _, z := range r.changed {
		own(z)
	}
	return nil
}

// finish returns the tree as it is after the last transaction.
func (r *replay) finish(ctx context.Context) (*Tree, error) {
	for z, err := range r.t.Znodes("/") {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if _, changed := r.changed[z.Path]; changed {
			continue
		}
		if err := r.b.add(asStored(z)); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.changed)) {
		if z := r.changed[path]; z != nil {
			if err := r.b.add(z); err != nil {
				return nil, err
			}
		}
	}
	r.b.t.Header.Root, r.b.t.Header.Zxid, r.b.t.Trailer.Zxid = "/", r.last, r.last
	return r.b.finish(false)
}
