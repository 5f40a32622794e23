package zklock

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// createZnode creates our own znode and any missing parents. It returns the children of the lock's
// path, listed right after the creation.
func (e *entry) createZnode(ctx context.Context) ([]string, error) {
	req := &zk.CreateRequest{Path: e.l.child(prefix(e.l.opt.Family, e.mode, e.guid)), Data: e.l.opt.Data, Acl: e.l.opt.ACL,
		Flags: zk.FlagEphemeral | zk.FlagSequence}
	for pause := firstPause; ; pause = nextPause(pause) {
		changed := nextChange(e.s)
		begun, sent := e.clock.refresh(), time.Now()
		e.listedOn = begun
		node, czxid, children, err := e.s.CreateAndList(ctx, req, e.l.path)
		e.mayExist = transient(err) || ctx.Err() != nil
		switch {
		case node != "":
			e.name, e.czxid = path.Base(node), czxid
			if err == nil {
				if e.clock.recordAnswer(begun, sent, nil) {
					e.createSent = sent
				}
				return children, nil
			}
			fallthrough
		case transient(err):
			children, err := e.findCreated(ctx)
			if err != nil || e.name != "" {
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

// findCreated finds out whether our own znode exists, after a lost connection left the result of
// the create, or of the list that follows, unknown. It sends a sync first, because the next server
// may lag behind the one that created the znode.
func (e *entry) findCreated(ctx context.Context) (children []string, err error) {
	children, err = e.syncAndList(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if e.name != "" {
			return nil, errPlaceLost
		}
		return nil, nil // without the parent, our own znode cannot exist
	}
	if err != nil || e.name != "" {
		return children, err
	}
	if e.name = e.ownAmong(children); e.name == "" {
		return children, nil
	}
	var st *zk.Stat
	err = retry(ctx, e.s, func() (err error) {
		st, err = e.s.Exists(ctx, e.node())
		return err
	})
	if err != nil {
		return nil, placeLost(err)
	}
	e.czxid = st.Czxid
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

// ownAmong returns the child whose name contains this entry's GUID, or an empty string if there is
// none.
func (e *entry) ownAmong(children []string) string {
	i := slices.IndexFunc(children, func(c string) bool { return isOwn(c, e.guid) })
	if i < 0 {
		return ""
	}
	return children[i]
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
