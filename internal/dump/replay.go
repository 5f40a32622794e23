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

// replay carries transactions out on a snapshot. A snapshot is written while the server goes
// on, so that it may have a part of what the logs say as well: as on a server, what cannot be
// done has been done already.
type replay struct {
	t      *Tree
	b      *builder
	from   int64             // the snapshot has what came up to here
	last   int64             // the last transaction
	begins bool              // a log does
	over   map[string]*Znode // what has changed; nil: it is gone
	owned  map[int64][]string
}

func newReplay(t *Tree, b *builder, zxid int64) *replay {
	return &replay{t: t, b: b, from: zxid, last: zxid, over: map[string]*Znode{}}
}

// at returns a znode to be changed; nil if there is none.
func (r *replay) at(path string) (*Znode, error) {
	if z, is := r.over[path]; is {
		return z, nil
	}
	z, err := r.t.Znode(path, true)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err == nil {
		err = r.put(raw(z))
	}
	return z, err
}

// raw gives a znode of a snapshot the numbers that stand there: a Tree shows those that servers
// tell.
func raw(z *Znode) *Znode {
	if st := z.Stat; st != nil {
		st.Cversion = (st.Cversion + st.NumChildren) / 2
	}
	return z
}

func (r *replay) put(z *Znode) error {
	r.over[z.Path] = z
	return r.b.hold(nodeSize + len(z.Path) + len(z.Data))
}

// apply carries a transaction out.
func (r *replay) apply(t *Txn) error {
	if t.Zxid <= r.from || t.Zxid < r.last {
		return nil
	}
	if next := r.last + 1; r.begins && t.Zxid > next && t.Zxid>>32 == next>>32 {
		return fmt.Errorf("the transactions from %#x to %#x are missing from the logs", next, t.Zxid-1)
	}
	r.begins, r.last = false, t.Zxid
	switch t.Type {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return r.create(t)
	case jute.OpDelete, jute.OpDeleteContainer:
		return r.remove(t.Path, t.Zxid)
	case jute.OpSetData, jute.OpReconfig:
		z, err := r.at(t.Path)
		if z == nil || err != nil {
			return err
		}
		more := len(t.Data) - len(z.Data)
		z.Data = t.Data
		z.Stat.Version, z.Stat.Mzxid, z.Stat.Mtime = t.Version, t.Zxid, t.Time.UnixMilli()
		return r.b.hold(more)
	case jute.OpSetACL:
		z, err := r.at(t.Path)
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
	parent, err := r.at(Parent(t.Path))
	if parent == nil || err != nil {
		return err
	}
	if t.Parent > parent.Stat.Cversion {
		parent.Stat.Cversion, parent.Stat.Pzxid = t.Parent, t.Zxid
	}
	if z, err := r.at(t.Path); z != nil || err != nil {
		return err
	}
	z := &Znode{Path: t.Path, Kind: t.Kind, TTL: t.TTL, Data: t.Data, ACL: t.ACL, Stat: &zk.Stat{
		Czxid: t.Zxid, Mzxid: t.Zxid, Pzxid: t.Zxid, Ctime: t.Time.UnixMilli(), Mtime: t.Time.UnixMilli()}}
	if t.Kind == Ephemeral {
		z.Stat.EphemeralOwner = t.Session
		if r.owned != nil {
			r.owned[t.Session] = append(r.owned[t.Session], t.Path)
		}
	}
	return r.put(z)
}

func (r *replay) remove(path string, zxid int64) error {
	z, err := r.at(path)
	if z == nil || err != nil {
		return err
	}
	parent, err := r.at(Parent(path))
	if parent != nil && err == nil {
		parent.Stat.Pzxid = max(parent.Stat.Pzxid, zxid)
	}
	r.over[path] = nil
	return err
}

// closeSession removes the ephemeral znodes of a session. Servers before 3.6 do not list them.
func (r *replay) closeSession(t *Txn) error {
	if r.owned == nil {
		if err := r.owners(); err != nil {
			return err
		}
	}
	for _, path := range append(slices.Clone(t.Gone), r.owned[t.Session]...) {
		z, err := r.at(path)
		if err == nil && z != nil && z.Stat.EphemeralOwner == t.Session {
			err = r.remove(path, t.Zxid)
		}
		if err != nil {
			return err
		}
	}
	delete(r.owned, t.Session)
	return nil
}

// owners finds all ephemeral znodes that there are.
func (r *replay) owners() error {
	r.owned = map[int64][]string{}
	own := func(z *Znode) {
		if z != nil && z.Kind == Ephemeral {
			r.owned[z.Stat.EphemeralOwner] = append(r.owned[z.Stat.EphemeralOwner], z.Path)
		}
	}
	for z, err := range r.t.Znodes("/") {
		if err != nil {
			return err
		}
		own(z)
	}
	for _, z := range r.over {
		own(z)
	}
	return nil
}

// done returns the tree as it is after the last transaction.
func (r *replay) done(ctx context.Context) (*Tree, error) {
	for z, err := range r.t.Znodes("/") {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		if _, changed := r.over[z.Path]; changed {
			continue
		}
		if err := r.b.add(raw(z)); err != nil {
			return nil, err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(r.over)) {
		if z := r.over[path]; z != nil {
			if err := r.b.add(z); err != nil {
				return nil, err
			}
		}
	}
	r.b.t.Header.Root, r.b.t.Header.Zxid, r.b.t.Trailer.Zxid = "/", r.last, r.last
	return r.b.done(false)
}
