package zklock

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// createZnodes creates our own znodes and any missing parents. It returns the children of the
// lock's path, listed right after the creation.
func (e *entry) createZnodes(ctx context.Context) ([]string, error) {
	var reqs []*zk.CreateRequest
	for _, prefix := range prefixes(e.l.opt.Family, e.mode, e.guid) {
		reqs = append(reqs, &zk.CreateRequest{Path: e.l.child(prefix), Data: e.l.opt.Data, Acl: e.l.opt.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence})
	}
	for pause := firstPause; ; pause = nextPause(pause) {
		changed := nextChange(e.s)
		begun, sent := e.clock.refresh(), time.Now()
		e.listedOn = begun
		paths, czxid, children, err := e.s.CreateAndList(ctx, reqs, e.l.path)
		e.mayExist = transient(err) || ctx.Err() != nil
		switch {
		case len(paths) > 0:
			e.setZnodes(paths, czxid)
			if err == nil {
				if e.clock.recordAnswer(begun, sent, nil) {
					e.createSent = sent
				}
				return children, nil
			}
			fallthrough
		case transient(err):
			children, err := e.findCreated(ctx, len(reqs))
			if err != nil || len(e.names) > 0 {
				return children, err
			}
			backOff(ctx, changed, pause)
		case errors.Is(err, zk.ErrNoNode):
			if err := e.makeParents(ctx, e.l.path, err); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// setZnodes records the paths and the czxid of our own znodes.
func (e *entry) setZnodes(paths []string, czxid int64) {
	e.names, e.czxid = nil, czxid
	for _, p := range paths {
		e.names = append(e.names, path.Base(p))
	}
}

// findCreated finds out whether our own znodes exist, after a lost connection left the result
// of the create, or of the list that follows, unknown. It sends a sync first, because the next
// server may lag behind the one that created the znodes. want is the expected number of own
// znodes.
func (e *entry) findCreated(ctx context.Context, want int) (children []string, err error) {
	children, err = e.syncAndList(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if len(e.names) > 0 {
			return nil, errPlaceLost
		}
		return nil, nil // without the parent, our own znodes cannot exist
	}
	if err != nil || len(e.names) > 0 {
		return children, err
	}
	e.names = e.ownAmong(children)
	switch len(e.names) {
	case 0:
	case want:
		var st *zk.Stat
		err = retry(ctx, e.s, func() (err error) {
			st, err = e.s.Exists(ctx, e.node())
			return err
		})
		if err != nil {
			return nil, placeLost(err)
		}
		e.czxid = st.Czxid
	default:
		return nil, errPlaceLost
	}
	return children, nil
}

// syncAndList lists the contenders after the server has caught up with the leader.
func (e *entry) syncAndList(ctx context.Context) (children []string, err error) {
	err = retry(ctx, e.s, func() (err error) {
		if err = e.s.Sync(ctx, e.l.path); err == nil {
			children, err = e.list(ctx)
		}
		return err
	})
	return children, err
}

// list returns the names of the contenders, and records on which connection it requested
// them.
func (e *entry) list(ctx context.Context) ([]string, error) {
	e.listedOn = begunAt(e.s)
	return e.s.Children(ctx, e.l.path, nil)
}

// ownAmong returns the children whose names contain this entry's GUID, in the order of their
// creation.
func (e *entry) ownAmong(children []string) []string {
	own := slices.DeleteFunc(slices.Clone(children), func(c string) bool { return !isOwn(c, e.guid) })
	sortByNumber(own)
	return own
}

// sortByNumber sorts znode names by their sequence numbers.
func sortByNumber(names []string) {
	number := func(name string) int64 { n, _ := ParseName(name); return n.Number }
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
}

// makeParents creates dir and its missing parents as containers, which the server deletes
// once they have been used and are empty again. If a parent is deleted before its child is
// created, makeParents creates both again. missing is the error that reported that dir does
// not exist.
func (e *entry) makeParents(ctx context.Context, dir string, missing error) error {
	if dir == "/" { // only the chroot itself can be missing, and creating it is not our task
		return missing
	}
	for {
		err := retry(ctx, e.s, func() error { return createParent(ctx, e.s, dir, e.l.parents, e.l.opt.ACL) })
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := e.makeParents(ctx, path.Dir(dir), err); err != nil {
			return err
		}
	}
}
