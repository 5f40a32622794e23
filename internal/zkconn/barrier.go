package zkconn

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// An Epoch is one session on an Ensemble. A fact about the ensemble is valid for that session
// only: during the next session, the host names may belong to other servers.
type Epoch struct {
	Ensemble
	in wire.Epoch
}

// Epoch returns the Epoch of the current session, or of the next session if none is open.
func (en Ensemble) Epoch() Epoch { return Epoch{en, en.l.wire.Status().Epoch} }

// EpochOf returns the same as Epoch, and reports whether the current session is open and has the
// given id.
func (en Ensemble) EpochOf(id int64) (e Epoch, present bool) {
	now := en.l.wire.Status()
	return Epoch{en, now.Epoch}, id != 0 && now.ID == id && now.Ending == nil
}

// Cluster returns the name of the ensemble, including the ClusterMark, or an empty string if it
// has no name.
func (en Ensemble) Cluster() string { return en.l.cfg.Cluster }

func (e Epoch) connection(ctx context.Context, path string) (target, error) {
	k, err := e.l.awaitIn(ctx, e.in, path, false)
	return target{k, e.l, ""}, err
}

// fencedBy returns nil, because no request of an Epoch changes a znode.
func (e Epoch) fencedBy() Fence { return nil }

// barrierPath is the path of a znode that never exists. Only the server creates znodes below
// /zookeeper.
const barrierPath = "/zookeeper/none"

// Barrier sends a transaction that changes nothing, and returns when a quorum of the ensemble has
// agreed to it. From then on, reads in this session include every change that any client could
// read before the call. A sync does not guarantee that: a leader that has lost its followers
// still answers a sync, but cannot commit a transaction.
func (e Epoch) Barrier(ctx context.Context) error {
	o := Check(barrierPath, -1)
	o.write = false // a check has no effect, so a lost answer leaves no outcome unknown
	err := Exec(ctx, e, o)
	if errors.Is(err, NoNode) {
		return nil
	}
	return err
}

// Stats returns the Stat of each znode, or nil for a znode that does not exist. The paths include
// the chroot.
func (e Epoch) Stats(ctx context.Context, paths []string) ([]*zk.Stat, error) {
	to, err := e.connection(ctx, paths[0])
	if err != nil {
		return nil, err
	}
	pending := make([]*Pending[*zk.Stat], len(paths))
	for i, path := range paths {
		pending[i] = begin(ctx, to, Exists(path))
	}
	stats := make([]*zk.Stat, len(paths))
	for i, p := range pending {
		if stats[i], err = p.Wait(ctx); err != nil && !errors.Is(err, NoNode) {
			return nil, err
		}
	}
	return stats, nil
}
