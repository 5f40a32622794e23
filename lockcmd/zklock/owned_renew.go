package zklock

import (
	"cmp"
	"context"
	"errors"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
)

// renew restarts the expiry of a lock that the owner already holds. It returns an error if the
// held lock does not satisfy the request, or errPlaceLost if the lock was released meanwhile.
func (o *Owned) renew(ctx context.Context, own Ownership, mode Mode) error {
	switch {
	case own.Family == noFamily: // some of its znodes have expired, or another client has deleted them
		return o.giveUp(ctx, own)
	case own.Family != o.l.opt.Family:
		return ErrFamily
	case mode == Exclusive && own.Mode == Shared:
		return ErrUpgrade
	case own.Expire != o.l.opt.Expire:
		return ErrExpire
	case own.Expire == 0:
		return nil
	}
	late, err := o.extend(ctx, own)
	if err == nil && late {
		return o.giveUp(ctx, own)
	}
	return err
}

// extend writes to the znodes of a lock, which expire when nobody has written to them for the
// time own.Expire. late reports whether they had expired before: the server may have begun to
// delete them, and does not check again whether somebody has written to them.
func (o *Owned) extend(ctx context.Context, own Ownership) (late bool, err error) {
	var before int64 // Mtime of the first znode before the first write
	err = o.inSession(ctx, func(s Session) error {
		for {
			var ops []any
			for i, node := range own.Nodes {
				data, st, err := s.Get(ctx, node, nil)
				if err != nil {
					return placeLost(err)
				}
				if i == 0 && before == 0 {
					before = st.Mtime
				}
				ops = append(ops, &zk.SetDataRequest{Path: node, Data: data, Version: st.Version})
			}
			err := s.Multi(ctx, ops...)
			if errors.Is(err, zk.ErrBadVersion) { // another request of the owner was faster
				continue
			}
			if err != nil {
				return placeLost(err)
			}
			st, err := s.Exists(ctx, own.Nodes[0])
			if err == nil {
				late = time.Duration(st.Mtime-before)*time.Millisecond > own.Expire
			}
			return placeLost(err)
		}
	})
	return late, err
}

// giveUp deletes the znodes of a lock that does not exclude all other clients any more, and
// returns errPlaceLost, so that the owner joins the queue again.
func (o *Owned) giveUp(ctx context.Context, own Ownership) error {
	err := o.inSession(ctx, func(s Session) error {
		for _, node := range own.Nodes {
			if err := s.Multi(ctx, &zk.DeleteRequest{Path: node, Version: -1}); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
		return nil
	})
	return cmp.Or(err, errPlaceLost)
}

// familyOf returns the family of a lock that consists of these znodes. If they are only a part of
// the znodes of a lock, it returns noFamily.
func familyOf(nodes []string) Family {
	families := map[Family]bool{}
	for _, node := range nodes {
		n, _ := ParseName(path.Base(node))
		families[n.family] = true
	}
	switch n, _ := ParseName(path.Base(nodes[0])); len(families) {
	case 1:
		return n.family
	case len(prefixes(All, n.Mode, "")):
		return All
	}
	return noFamily
}
