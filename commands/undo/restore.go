package undo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// data brings back the data of one znode, if it has those that the operation wrote. Their
// version is demanded.
func (u *undoing) data(ctx context.Context) error {
	was, err := u.kept.Znode(u.Path, true)
	if err != nil {
		return err
	}
	node, err := zkconn.Do(ctx, u.env.Session, zkconn.GetData(u.Path))
	switch {
	case errors.Is(err, zkconn.NoNode):
		u.conflicts = append(u.conflicts, deleted(u.Path))
		return u.refuse()
	case err != nil:
		return err
	case zktree.SameData(node.Data, was.Data): // whoever has written it
		return nil
	case hashed(node.Data) != u.Wrote && !u.overwrite:
		u.differs(zktree.Difference{A: &dump.Znode{Path: u.Path, Data: node.Data, Stat: node.Stat}, B: was, Aspect: zktree.DataDiffers})
		return u.refuse()
	}
	u.plan = []string{"set " + u.Path}
	if u.dry {
		return nil
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostData, Version: node.Stat.Version, Data: was.Data}
	u.counts.Changed = 1
	return u.losing(ctx, loss, func(ctx context.Context, version int32) error {
		err := zkconn.Exec(ctx, u.env.Session, zkconn.SetData(u.Path, was.Data, version))
		return err
	})
}

// deleted is the conflict of a znode that has to exist for a part of it to be restored.
func deleted(path string) conflict {
	return conflict{path: path, what: path + " was deleted after the operation; create it, then run undo again", final: true}
}

// losing saves what undo itself writes over, also in scripts: undo has the log at hand.
func (u *undoing) losing(ctx context.Context, l commands.Loss, destroy commands.Destroy) error {
	env := *u.env
	if env.Keeper == nil {
		env.Keeper = u.log.Keeper()
	}
	return env.Losing(ctx, l, destroy)
}

// name is that of the operation that undoes this one.
func (u *undoing) name() string { return fmt.Sprintf("%s %d", undoName, u.N) }

// tree brings back the znodes that are gone, and what was written over.
func (u *undoing) tree(ctx context.Context) error {
	var hidden []string // saved znodes that may not be read now
	kept := u.lasting()
	for d, err := range zktree.Compare(u.now(ctx), kept) {
		switch {
		case err != nil:
			return err
		case d.Err != nil && d.B == nil: // unreadable before the operation, too, so nothing of it was saved
		case d.Err != nil:
			hidden = append(hidden, kept.At(d.Below))
		case d.B != nil: // what is new there is nobody's loss
			u.compared(d)
		}
	}
	for _, path := range hidden {
		if err := u.hidden(ctx, path); err != nil {
			return err
		}
	}
	if err := u.refuse(); err != nil {
		return err
	}
	edits := zktree.Plan(u.Path, zktree.Seq(u.differences))
	switch {
	case u.dry || len(u.differences) == 0:
		return nil
	case !u.over:
		return u.write(ctx, edits)
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostParts, Version: -1}
	return u.losing(ctx, loss, func(ctx context.Context, _ int32) error { return u.write(ctx, edits) })
}

// compared decides what becomes of a saved znode, the B of d, that is gone or not as it was.
func (u *undoing) compared(d zktree.Difference) {
	switch {
	case d.A == nil:
		u.plan = append(u.plan, "create "+d.B.Path)
	case u.wroteOver(d), u.overwrite && d.Aspect&zktree.KindDiffers == 0:
		u.over = true
		u.plan = append(u.plan, "change "+d.B.Path)
		d.A.Data = nil // only the data in the file is needed, and read again
	default:
		u.differs(d)
		return
	}
	d.B.Data = nil
	u.differences = append(u.differences, d)
}

// wroteOver reports whether a znode has changed once, in each way, since it was kept, and
// that as long as the operation lasted.
func (u *undoing) wroteOver(d zktree.Difference) bool {
	now, was := d.A.Stat, d.B.Stat
	if u.Of != commands.LostParts || u.Zxid == 0 || was == nil || was.Czxid != now.Czxid || d.Aspect&zktree.KindDiffers != 0 {
		return false
	}
	data, acl := d.Aspect&zktree.DataDiffers != 0, d.Aspect&zktree.ACLDiffers != 0
	return (!data || now.Version == was.Version+1 && now.Mzxid <= u.Zxid) && (!acl || now.Aversion == was.Aversion+1)
}

// write makes edits, with the data that was saved.
func (u *undoing) write(ctx context.Context, edits iter.Seq2[zktree.Edit, error]) (err error) {
	update, end := u.env.Screen.Progress("restored")
	defer end()
	u.counts, err = zktree.Write(ctx, u.env.Session.Client, u.Path, zktree.Refuse, update, func(w *zktree.Writer) error {
		for e, err := range edits {
			if err == nil && (e.Does == zktree.Creates || e.Does == zktree.Sets) {
				e.Znode, err = u.kept.Znode(e.Path, true)
			}
			if err == nil {
				err = w.Do(e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// lasting is what was kept, without what does not come back.
func (u *undoing) lasting() zktree.Tree {
	t := zktree.Tree{Root: u.Path, Nodes: u.kept.Znodes(u.Path)}
	return t.Without(func(z *dump.Znode, _ error) (bool, error) { return z.Kind == dump.Ephemeral, nil })
}

// now is what the server has of it.
func (u *undoing) now(ctx context.Context) zktree.Tree {
	t := subtree(ctx, u.env, u.Path, "compared")
	if u.Of == commands.LostNode {
		t.Nodes = func(yield func(*dump.Znode, error) bool) {
			yield(zktree.ReadOne(ctx, u.env.Session.Client, u.Path, true))
		}
	}
	return t.OrEmpty()
}

// differs adds the conflict of a znode that exists, and is not as it was.
func (u *undoing) differs(d zktree.Difference) {
	c := conflict{path: d.B.Path, final: d.Aspect&zktree.KindDiffers != 0}
	var parts []string
	if d.Aspect&zktree.KindDiffers != 0 {
		parts = append(parts, "it is now "+d.A.Kind.String())
	}
	if d.Aspect&zktree.ACLDiffers != 0 {
		parts = append(parts, "the ACL is different")
	}
	if d.Aspect&zktree.DataDiffers != 0 {
		parts = append(parts, fmt.Sprintf("the data is now %s (version %d), and undo would restore the saved %s", inBytes(len(d.A.Data)), d.A.Stat.Version, inBytes(len(d.B.Data))))
		c.diff = commands.DataDiff(d.A.Data, d.B.Data)
	}
	c.what = fmt.Sprintf("%s has changed since the operation: %s", c.path, strings.Join(parts, "; "))
	if c.diff != "" {
		c.what += ":"
	}
	u.conflicts = append(u.conflicts, c)
}

// inBytes words a size.
func inBytes(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// aclBatch is how many access control lists are asked for in one flight.
const aclBatch = 64

// acls brings back access control lists that are as the operation has left them: it wrote
// each once, which made the next aclVersion of it, or they are the same again. Their
// present version is demanded.
func (u *undoing) acls(ctx context.Context) error {
	src, err := zktree.OnServer(ctx, u.env.Session.Client, u.Path, false)
	if err != nil {
		return err
	}
	var lost []zktree.Edit
	var batch []*dump.Znode
	look := func() error {
		found, err := u.lostACLs(ctx, src, batch)
		lost, batch = append(lost, found...), nil
		return err
	}
	for z, err := range u.kept.Znodes(u.Path) {
		if err != nil {
			return err
		}
		if z.Data = nil; z.Stat == nil || z.ACL == nil {
			return fmt.Errorf("the file %s is incomplete: the stat or the ACL of %s is missing", u.s.file(u.N, dumpFile), z.Path)
		}
		if batch = append(batch, z); len(batch) == aclBatch {
			if err := look(); err != nil {
				return err
			}
		}
	}
	if len(batch) > 0 {
		if err := look(); err != nil {
			return err
		}
	}
	if err := u.refuse(); err != nil {
		return err
	}
	for _, e := range lost {
		u.plan = append(u.plan, "setAcl "+e.Path)
	}
	if u.dry || len(lost) == 0 {
		return nil
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostACLs, Version: -1}
	return u.losing(ctx, loss, func(ctx context.Context, _ int32) error { return u.write(ctx, zktree.Seq(lost)) })
}

// lostACLs returns the edits that restore those of a batch. Of a znode that may not be read
// any more only the write can tell.
func (u *undoing) lostACLs(ctx context.Context, src zktree.Source, batch []*dump.Znode) (lost []zktree.Edit, err error) {
	paths := make([]string, len(batch))
	for i, z := range batch {
		paths[i] = z.Path
	}
	entries, err := src.Ask(paths, zktree.Want{ACL: true}).Wait(ctx, nil)
	if err != nil {
		return nil, err
	}
	for i, z := range batch {
		e := zktree.Edit{Does: zktree.SetsACL, Path: z.Path, Znode: z, Version: z.Stat.Aversion + 1}
		switch now := entries[i]; {
		case errors.Is(now.Err, zkconn.NoAuth):
			lost = append(lost, e)
		case errors.Is(now.Err, zkconn.NoNode):
			u.conflicts = append(u.conflicts, deleted(z.Path))
		case now.Err != nil:
			return nil, now.Err
		case zktree.SameACL(now.ACL, z.ACL):
		case u.overwrite, now.Stat.Czxid == z.Stat.Czxid && now.Stat.Aversion == z.Stat.Aversion+1, u.Left != nil && zktree.SameACL(now.ACL, u.Left):
			e.Version = now.Stat.Aversion
			lost = append(lost, e)
		default:
			u.conflicts = append(u.conflicts, conflict{path: z.Path, what: z.Path + " has changed since the operation: the ACL is no longer the one that the operation set"})
		}
	}
	return lost, nil
}
