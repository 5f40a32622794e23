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
		return o.giveUp(ctx, own, nil)
	case own.Family != o.l.opt.Family:
		return ErrFamily
	case mode == Exclusive && own.Mode == Shared:
		return ErrUpgrade
	case own.Expire != o.l.opt.Expire:
		return ErrExpire
	case own.Expire == 0:
		return nil
	}
	expired, err := o.extend(ctx, own)
	if err == nil && expired != nil {
		return o.giveUp(ctx, own, expired)
	}
	return err
}

// extend writes to the znodes of a lock, which expire when nobody has written to them for the
// time own.Expire. If they had already expired, the server may have begun to delete them, and does
// not check again whether somebody has written to them. extend then returns their versions.
func (o *Owned) extend(ctx context.Context, own Ownership) (expired map[string]int32, err error) {
	err = o.l.inSession(ctx, func(s Session) error {
		for {
			var ops []any
			var before int64 // time of the last write to the znode that expires first
			versions := map[string]int32{}
			for i, node := range own.Nodes {
				data, st, err := s.Get(ctx, node, nil)
				if err != nil {
					return placeLost(err)
				}
				if i == 0 || st.Mtime < before {
					before = st.Mtime
				}
				versions[node] = st.Version
				ops = append(ops, &zk.SetDataRequest{Path: node, Data: data, Version: st.Version})
			}
			// The leader compares the times a little later than it writes them.
			margin := min(time.Second, own.Expire/10)
			late := func(now int64) bool { return time.Duration(now-before)*time.Millisecond > own.Expire-margin }
			now, err := o.leaderTime(ctx, s)
			if err != nil {
				return placeLost(err)
			}
			if late(now) {
				expired = versions
				return nil
			}
			err = s.Multi(ctx, ops...)
			switch {
			case errors.Is(err, zk.ErrBadVersion): // another request of the owner was faster
				continue
			case err != nil:
				return placeLost(err)
			}
			st, err := s.Exists(ctx, own.Nodes[0])
			if err == nil && late(st.Mtime) {
				for node := range versions {
					versions[node]++ // by the write
				}
				expired = versions
			}
			return placeLost(err)
		}
	})
	return expired, err
}

// leaderTime returns the time of the leader's clock, in milliseconds since 1970: it creates a
// znode, reads when it was created, and deletes it. The znode is not a contender for zksh, Curator
// and kazoo. go-zookeeper takes every child of a lock for a contender, and can parse this name. For
// leases, the znode has another parent, because every child of theirs counts as a lease.
func (o *Owned) leaderTime(ctx context.Context, s Session) (int64, error) {
	dir := o.l.publicPath()
	req := &zk.CreateRequest{Path: path.Join(dir, "renewal__"), Acl: o.l.opt.ACL, Flags: zk.FlagEphemeral | zk.FlagSequence}
	paths, _, _, err := s.CreateAndList(ctx, []*zk.CreateRequest{req}, dir)
	if len(paths) == 0 {
		return 0, err
	}
	st, err := s.Exists(ctx, paths[0])
	if err := cmp.Or(err, s.Multi(ctx, &zk.DeleteRequest{Path: paths[0], Version: -1})); err != nil {
		return 0, err
	}
	return st.Ctime, nil
}

// giveUp deletes the znodes of a lock that does not exclude all other clients any more, and
// returns errPlaceLost, so that the owner joins the queue again. If versions is not nil, giveUp
// deletes only znodes that have these versions: another request of the owner may have renewed the
// lock.
func (o *Owned) giveUp(ctx context.Context, own Ownership, versions map[string]int32) error {
	err := o.l.inSession(ctx, func(s Session) error { return deleteEach(ctx, s, deletes(own.Nodes, versions)) })
	return cmp.Or(err, errPlaceLost)
}

// familyOf returns the family of a lock that consists of these znodes. If one of the znodes of
// family All is missing, it returns noFamily. If only one is left, it returns the family of that
// znode.
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
