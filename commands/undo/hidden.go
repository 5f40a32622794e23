package undo

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// hidden finds out what the operation did to the saved znodes at and below a znode that
// may not be read now. The operation itself may have hidden them, by an ACL. A Stat, which
// needs no permission, shows what was written.
func (u *undoing) hidden(ctx context.Context, root string) error {
	for was, err := range u.kept.Znodes(root) {
		switch {
		case err != nil:
			return err
		case was.Kind == dump.Ephemeral:
			continue
		}
		d, refusal, err := u.look(ctx, was)
		switch {
		case err != nil:
			return err
		case d.A != nil && d.Aspect == 0:
		case refusal != nil && !u.overwrite && !u.wroteOver(d):
			u.conflicts = append(u.conflicts, conflict{path: was.Path, what: was.Path + " has changed since the operation, and cannot be read: " + refusal.Error()})
		default:
			u.compared(d)
		}
	}
	return nil
}

// look compares a saved znode with what is there now. With a refusal, that may not be
// read, and the difference is by its versions.
func (u *undoing) look(ctx context.Context, was *dump.Znode) (d zktree.Difference, refusal, err error) {
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
