package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	data, st, err := u.env.Session.Get(ctx, u.Path, false)
	switch {
	case errors.Is(err, zkconn.NoNode):
		u.conflicts = append(u.conflicts, deleted(u.Path))
		return u.refuse()
	case err != nil:
		return err
	case zktree.SameData(data, was.Data): // whoever has written it
		return nil
	case hashed(data) != u.Wrote && !u.overwrite:
		u.differs(zktree.Difference{A: was, B: &dump.Znode{Path: u.Path, Data: data, Stat: st}, Aspect: zktree.DataDiffers})
		return u.refuse()
	}
	u.plan = []string{"set " + u.Path}
	if u.dry {
		return nil
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostData, Version: st.Version, Data: was.Data}
	u.counts.Changed = 1
	return u.losing(ctx, loss, func(ctx context.Context, version int32) error {
		_, err := u.env.Session.Set(ctx, u.Path, was.Data, version)
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
	var gone, over []zktree.Difference
	var hidden []string // saved znodes that may not be read now
	kept := u.lasting()
	for d, err := range zktree.Compare(kept, u.now(ctx)) {
		switch {
		case err != nil:
			return err
		case d.Err != nil && d.A == nil: // unreadable before the operation, too, so nothing of it was saved
		case d.Err != nil:
			hidden = append(hidden, kept.At(d.Below))
		case d.B == nil:
			gone = append(gone, light(d))
			u.plan = append(u.plan, "create "+d.A.Path)
		case d.A == nil: // what is new there is nobody's loss
		case u.wroteOver(d), u.overwrite && d.Aspect&zktree.KindDiffers == 0:
			over = append(over, light(d))
			u.plan = append(u.plan, "change "+d.A.Path)
		default:
			u.differs(d)
		}
	}
	for _, path := range hidden {
		more, changed, err := u.hidden(ctx, path)
		if err != nil {
			return err
		}
		gone, over = append(gone, more...), append(over, changed...)
	}
	if err := u.refuse(); err != nil {
		return err
	}
	switch {
	case u.dry || len(gone)+len(over) == 0:
		return nil
	case len(over) == 0:
		return u.bring(ctx, gone, nil)
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostParts, Version: -1}
	return u.losing(ctx, loss, func(ctx context.Context, _ int32) error { return u.bring(ctx, gone, over) })
}

// light is a difference without the data.
func light(d zktree.Difference) zktree.Difference {
	d.A.Data = nil
	if d.B != nil {
		d.B.Data = nil
	}
	return d
}

// wroteOver tells whether a znode has changed once, in each way, since it was kept, and
// that as long as the operation lasted.
func (u *undoing) wroteOver(d zktree.Difference) bool {
	if u.Of != commands.LostParts || u.Zxid == 0 || d.A.Stat == nil || d.A.Stat.Czxid != d.B.Stat.Czxid || d.Aspect&zktree.KindDiffers != 0 {
		return false
	}
	data, acl := d.Aspect&zktree.DataDiffers != 0, d.Aspect&zktree.ACLDiffers != 0
	return (!data || d.B.Stat.Version == d.A.Stat.Version+1 && d.B.Stat.Mzxid <= u.Zxid) &&
		(!acl || d.B.Stat.Aversion == d.A.Stat.Aversion+1)
}

// bring makes znodes as they were, and writes what they had.
func (u *undoing) bring(ctx context.Context, gone, over []zktree.Difference) error {
	return bringBack(ctx, u, slices.Concat(gone, over), u.write)
}

// bringBack writes each of what an operation has taken.
func bringBack[T any](ctx context.Context, u *undoing, all []T, write func(*zktree.Writer, T) error) (err error) {
	update, end := u.env.Screen.Progress("restored")
	defer end()
	u.counts, err = zktree.Write(ctx, u.env.Session.Client, u.Path, zktree.Refuse, update, func(w *zktree.Writer) error {
		for _, one := range all {
			if err := write(w, one); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func (u *undoing) write(w *zktree.Writer, d zktree.Difference) error {
	z, err := u.kept.Znode(d.A.Path, true)
	if err != nil {
		return err
	}
	if d.B == nil {
		return w.Create(z)
	}
	if d.Aspect&zktree.DataDiffers != 0 {
		err = w.Set(z.Path, z.Data, d.B.Stat.Version)
	}
	if err == nil && d.Aspect&zktree.ACLDiffers != 0 {
		err = w.SetACL(z.Path, z.ACL, d.B.Stat.Aversion)
	}
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
	c := conflict{path: d.A.Path, final: d.Aspect&zktree.KindDiffers != 0}
	var parts []string
	if d.Aspect&zktree.KindDiffers != 0 {
		parts = append(parts, "it is now "+d.B.Kind.String())
	}
	if d.Aspect&zktree.ACLDiffers != 0 {
		parts = append(parts, "the ACL is different")
	}
	if d.Aspect&zktree.DataDiffers != 0 {
		parts = append(parts, fmt.Sprintf("the data is now %s (version %d), and undo would restore the saved %s", inBytes(len(d.B.Data)), d.B.Stat.Version, inBytes(len(d.A.Data))))
		c.diff = commands.DataDiff(d.B.Data, d.A.Data)
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
	var lost, batch []*dump.Znode
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
	for _, z := range lost {
		u.plan = append(u.plan, "setAcl "+z.Path)
	}
	if u.dry || len(lost) == 0 {
		return nil
	}
	loss := commands.Loss{Command: u.name(), Path: u.Path, Of: commands.LostACLs, Version: -1}
	return u.losing(ctx, loss, func(ctx context.Context, _ int32) error { return u.writeACLs(ctx, lost) })
}

// lostACLs finds those of a batch that are to be written. Of a znode that may not be read
// any more only the write can tell.
func (u *undoing) lostACLs(ctx context.Context, src zktree.Source, batch []*dump.Znode) (lost []*dump.Znode, err error) {
	paths := make([]string, len(batch))
	for i, z := range batch {
		paths[i] = z.Path
	}
	entries, err := src.Ask(paths, zktree.Want{ACL: true}).Wait(ctx, nil)
	if err != nil {
		return nil, err
	}
	for i, z := range batch {
		switch now := entries[i]; {
		case errors.Is(now.Err, zkconn.NoAuth):
			z.Stat.Aversion++
			lost = append(lost, z)
		case errors.Is(now.Err, zkconn.NoNode):
			u.conflicts = append(u.conflicts, deleted(z.Path))
		case now.Err != nil:
			return nil, now.Err
		case zktree.SameACL(now.ACL, z.ACL):
		case u.overwrite, now.Stat.Czxid == z.Stat.Czxid && now.Stat.Aversion == z.Stat.Aversion+1, u.Left != nil && zktree.SameACL(now.ACL, u.Left):
			z.Stat.Aversion = now.Stat.Aversion
			lost = append(lost, z)
		default:
			u.conflicts = append(u.conflicts, conflict{path: z.Path, what: z.Path + " has changed since the operation: the ACL is no longer the one that the operation set"})
		}
	}
	return lost, nil
}

func (u *undoing) writeACLs(ctx context.Context, lost []*dump.Znode) error {
	return bringBack(ctx, u, lost, func(w *zktree.Writer, z *dump.Znode) error { return w.SetACL(z.Path, z.ACL, z.Stat.Aversion) })
}
