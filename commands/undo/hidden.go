package undo

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// compareHidden compares the saved znodes at and below root with their current state. The session
// may have lost the permission to read them, perhaps because the operation changed their ACLs. Only
// the versions of such znodes are compared.
func (u *undoing) compareHidden(ctx context.Context, root string) error {
	for was, err := range u.saved.Znodes(root) {
		switch {
		case err != nil:
			return err
		case was.Kind == dump.Ephemeral:
			continue
		}
		d, refusal, err := u.compareZnode(ctx, was)
		switch {
		case err != nil:
			return err
		case d.A != nil && d.Aspect == 0:
		case refusal != nil && !u.overwrite && !u.changedByOperation(d):
			u.conflicts = append(u.conflicts, conflict{path: was.Path, what: was.Path + " has changed since the operation, and cannot be read: " + refusal.Error()})
		default:
			u.addDifference(d)
		}
	}
	return nil
}

// compareZnode compares a saved znode with its current state. If the znode cannot be read, refusal
// is the reason, and only the versions are compared.
func (u *undoing) compareZnode(ctx context.Context, was *dump.Znode) (d zktree.Difference, refusal, err error) {
	d.Below, d.B = zktree.Tree{Root: u.Path}.Below(was.Path), was
	d.A, err = zktree.ReadOne(ctx, u.env.Session.Client, was.Path, true)
	if d.A != nil && err != nil {
		refusal = err
		d.A = nil
		var stat *zk.Stat
		if stat, err = zkconn.Do(ctx, u.env.Session, zkconn.Exists(was.Path)); err == nil {
			d.A = &dump.Znode{Path: was.Path, Kind: dump.KindOf(stat), Stat: stat}
		}
	}
	switch {
	case errors.Is(err, zkconn.NoNode):
		return d, nil, nil
	case err != nil:
		return d, nil, err
	case refusal == nil:
		d.Differs()
		return d, nil, nil
	}
	if was.Stat == nil || d.A.Stat.Version != was.Stat.Version {
		d.Aspect |= zktree.DataDiffers
	}
	if was.Stat == nil || d.A.Stat.Aversion != was.Stat.Aversion {
		d.Aspect |= zktree.ACLDiffers
	}
	return d, refusal, nil
}
