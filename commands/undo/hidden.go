package undo

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// hidden finds out what the operation did to the saved znodes at and below a znode that
// may not be read now. The operation itself may have hidden them, by an ACL. A Stat, which
// needs no permission, shows what was written.
func (u *undoing) hidden(ctx context.Context, root string) (gone, over []zktree.Difference, err error) {
	for was, err := range u.kept.Znodes(root) {
		switch {
		case err != nil:
			return nil, nil, err
		case was.Kind == dump.Ephemeral:
			continue
		}
		d, refusal, err := u.look(ctx, was)
		switch {
		case err != nil:
			return nil, nil, err
		case d.B == nil:
			gone = append(gone, light(d))
			u.plan = append(u.plan, "create "+was.Path)
		case d.Aspect == 0:
		case u.wroteOver(d), u.overwrite && d.Aspect&zktree.KindDiffers == 0:
			over = append(over, light(d))
			u.plan = append(u.plan, "change "+was.Path)
		case refusal != nil:
			u.conflicts = append(u.conflicts, conflict{path: was.Path, what: was.Path + " has changed since the operation, and cannot be read: " + refusal.Error()})
		default:
			u.differs(d)
		}
	}
	return gone, over, nil
}

// look compares a saved znode with what is there now. With a refusal, that may not be
// read, and the difference is by its versions.
func (u *undoing) look(ctx context.Context, was *dump.Znode) (d zktree.Difference, refusal, err error) {
	d.A = was
	now, err := zktree.ReadOne(ctx, u.env.Session.Client, was.Path, true)
	switch {
	case errors.Is(err, zkconn.NoNode):
		return d, nil, nil
	case now == nil:
		return d, nil, err
	case err == nil:
		d.B = now
		d.Differs()
		return d, nil, nil
	}
	refusal = err
	stat, err := u.env.Session.Exists(ctx, was.Path, false)
	switch {
	case errors.Is(err, zkconn.NoNode):
		return d, nil, nil
	case err != nil:
		return d, nil, err
	}
	d.B = &dump.Znode{Path: was.Path, Kind: dump.KindOf(stat), Stat: stat}
	if was.Stat == nil || stat.Version != was.Stat.Version {
		d.Aspect |= zktree.DataDiffers
	}
	if was.Stat == nil || stat.Aversion != was.Stat.Aversion {
		d.Aspect |= zktree.ACLDiffers
	}
	return d, refusal, nil
}
