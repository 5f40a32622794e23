package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// restoreData restores the data of one znode, if the current data is still the data that the
// operation wrote. The write fails if the znode has changed since restoreData read it.
func (u *undoing) restoreData(ctx context.Context) error {
	was, err := u.saved.Znode(u.Path)
	if err != nil {
		return err
	}
	node, err := zkconn.Do(ctx, u.env.Session, zkconn.GetData(u.Path))
	switch {
	case errors.Is(err, zkconn.NoNode):
		u.conflicts = append(u.conflicts, deletedConflict(u.Path))
		return u.rejectConflicts()
	case err != nil:
		return err
	case zktree.SameData(node.Data, was.Data): // the old data has already been restored
		return nil
	case hashOf(node.Data) != u.Wrote && !u.overwrite:
		u.addConflict(zktree.Difference{A: &dump.Znode{Path: u.Path, Data: node.Data, Stat: node.Stat}, B: was, Aspect: zktree.DataDiffers})
		return u.rejectConflicts()
	}
	u.plan = []string{"set " + u.Path}
	if u.dry {
		return nil
	}
	loss := commands.Loss{Command: u.operationName(), Path: u.Path, Of: commands.LostData, Version: node.Stat.Version, Data: was.Data}
	u.counts.Changed = 1
	return u.saveAndRun(ctx, loss, func(ctx context.Context, version int32) error {
		err := zkconn.Exec(ctx, u.env.Session, zkconn.SetData(u.Path, was.Data, version))
		return err
	})
}

// deletedConflict returns the conflict for a znode that was deleted after the operation. The data
// or ACL of a znode can be restored only if the znode exists.
func deletedConflict(path string) conflict {
	return conflict{path: path, what: path + " was deleted after the operation; create it, then run undo again", final: true}
}

// saveAndRun saves the data that the undo itself overwrites, and then calls destroy. It saves the
// data even in a script, where other commands save nothing.
func (u *undoing) saveAndRun(ctx context.Context, l commands.Loss, destroy commands.Destroy) error {
	env := *u.env
	if env.Saver == nil {
		env.Saver = u.log.Saver()
	}
	return env.SaveAndRun(ctx, l, destroy)
}

// operationName returns the command name under which the undo log records this undo.
func (u *undoing) operationName() string { return fmt.Sprintf("%s %d", undoName, u.N) }

// restoreTree restores the znodes that the operation deleted or overwrote.
func (u *undoing) restoreTree(ctx context.Context) error {
	var hidden []string // paths of saved znodes that cannot be read now
	saved := u.savedTree()
	for d, err := range zktree.Compare(u.currentTree(ctx), saved) {
		switch {
		case err != nil:
			return err
		case d.Err != nil && d.B == nil: // the znode was unreadable before the operation, too, so it was not saved
		case d.Err != nil:
			hidden = append(hidden, saved.At(d.Below))
		case d.B != nil: // znodes that the saved copy does not contain stay unchanged
			u.addDifference(d)
		}
	}
	for _, path := range hidden {
		if err := u.compareHidden(ctx, path); err != nil {
			return err
		}
	}
	if err := u.rejectConflicts(); err != nil {
		return err
	}
	edits := zktree.Plan(u.Path, zktree.Seq(u.differences))
	switch {
	case u.dry || len(u.differences) == 0:
		return nil
	case !u.overwrites:
		return u.writeEdits(ctx, edits)
	}
	loss := commands.Loss{Command: u.operationName(), Path: u.Path, Of: commands.LostParts, Version: -1}
	return u.saveAndRun(ctx, loss, func(ctx context.Context, _ int32) error { return u.writeEdits(ctx, edits) })
}

// addDifference handles a saved znode, d.B, that is now missing or different. It adds the znode
// either to the plan of the undo or to the conflicts.
func (u *undoing) addDifference(d zktree.Difference) {
	switch {
	case d.A == nil:
		u.plan = append(u.plan, "create "+d.B.Path)
	case u.changedByOperation(d), u.overwrite && d.Aspect&zktree.KindDiffers == 0:
		u.overwrites = true
		u.plan = append(u.plan, "change "+d.B.Path)
		d.A.Data = nil // save memory; the saved data is read again when it is written
	default:
		u.addConflict(d)
		return
	}
	d.B.Data = nil
	u.differences = append(u.differences, d)
}

// changedByOperation reports whether the operation itself seems to have caused the difference. It
// checks that the data was written only once since the copy was saved, and before the operation
// ended. It also checks that the ACL was written only once.
func (u *undoing) changedByOperation(d zktree.Difference) bool {
	now, was := d.A.Stat, d.B.Stat
	if u.Of != commands.LostParts || u.Zxid == 0 || was == nil || was.Czxid != now.Czxid || d.Aspect&zktree.KindDiffers != 0 {
		return false
	}
	data, acl := d.Aspect&zktree.DataDiffers != 0, d.Aspect&zktree.ACLDiffers != 0
	return (!data || now.Version == was.Version+1 && now.Mzxid <= u.Zxid) && (!acl || now.Aversion == was.Aversion+1)
}

// writeEdits applies the edits. It reads the data to write from the saved copy.
func (u *undoing) writeEdits(ctx context.Context, edits zktree.Edits) (err error) {
	update, end := u.env.Screen.Progress("restored")
	defer end()
	withData := func(yield func(*zktree.Edit, error) bool) {
		for e, err := range edits {
			if err == nil && (e.Does == zktree.Creates || e.Does == zktree.Sets) {
				e.New, err = u.saved.Znode(e.Path)
			}
			if !yield(e, err) {
				return
			}
		}
	}
	target := zktree.Target{Path: u.Path, Name: u.Path}
	u.counts, err = zktree.Apply(ctx, u.env.Session.Client, withData, target, zktree.Refuse, update)
	return err
}

// savedTree returns those znodes of the saved copy that undo restores.
func (u *undoing) savedTree() zktree.Tree {
	t := zktree.Tree{Root: u.Path, Nodes: u.saved.Znodes(u.Path)}
	return t.Without(func(z *dump.Znode, _ error) (bool, error) { return z.Kind == dump.Ephemeral, nil })
}

// currentTree returns the znodes that currently exist on the server at and below the path of the
// operation.
func (u *undoing) currentTree(ctx context.Context) zktree.Tree {
	t := subtree(ctx, u.env, u.Path, "compared")
	if u.Of == commands.LostNode {
		t.Nodes = func(yield func(*dump.Znode, error) bool) {
			yield(zktree.ReadOne(ctx, u.env.Session.Client, u.Path, true))
		}
	}
	return t.OrEmpty()
}

// addConflict adds a conflict for a znode that exists but differs from its saved copy.
func (u *undoing) addConflict(d zktree.Difference) {
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

// inBytes returns a size with its unit as text, such as "1 byte".
func inBytes(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// aclBatch is the number of ACLs that undo requests from the server at once.
const aclBatch = 64

// restoreACLs restores each ACL that has not changed since the operation set it. The operation
// wrote each ACL once. An ACL is therefore unchanged if its aclVersion is one higher than the saved
// aclVersion, or if it equals the ACL that the operation set. The write fails if the aclVersion has
// changed since restoreACLs read it.
func (u *undoing) restoreACLs(ctx context.Context) error {
	var edits []*zktree.Edit
	var batch []*dump.Znode
	look := func() error {
		found, err := u.aclEdits(ctx, batch)
		edits, batch = append(edits, found...), nil
		return err
	}
	for z, err := range u.saved.Znodes(u.Path) {
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
	if err := u.rejectConflicts(); err != nil {
		return err
	}
	for _, e := range edits {
		u.plan = append(u.plan, "setAcl "+e.Path)
	}
	if u.dry || len(edits) == 0 {
		return nil
	}
	loss := commands.Loss{Command: u.operationName(), Path: u.Path, Of: commands.LostACLs, Version: -1}
	return u.saveAndRun(ctx, loss, func(ctx context.Context, _ int32) error { return u.writeEdits(ctx, zktree.Seq(edits)) })
}

// aclEdits returns the edits that restore the ACLs of a batch of znodes. If the session can no
// longer read an ACL, the edit for that ACL fails if the ACL has changed since the operation.
func (u *undoing) aclEdits(ctx context.Context, batch []*dump.Znode) (edits []*zktree.Edit, err error) {
	paths := make([]string, len(batch))
	for i, z := range batch {
		paths[i] = z.Path
	}
	type reading struct {
		zkconn.Access
		Err error
	}
	p, err := u.env.Session.Pipe(ctx, u.Path)
	if err != nil {
		return nil, err
	}
	var found []reading
	err = zkconn.AddEach(p, paths, zkconn.GetACL).Each(ctx, func(a zkconn.Access, refusal error) {
		found = append(found, reading{a, refusal})
	})
	if err != nil {
		return nil, err
	}
	for i, z := range batch {
		old := *z.Stat
		old.Aversion++
		e := &zktree.Edit{Does: zktree.SetsACL, Path: z.Path, Old: &dump.Znode{Stat: &old}, New: z}
		switch now := found[i]; {
		case errors.Is(now.Err, zkconn.NoAuth):
			edits = append(edits, e)
		case errors.Is(now.Err, zkconn.NoNode):
			u.conflicts = append(u.conflicts, deletedConflict(z.Path))
		case now.Err != nil:
			return nil, now.Err
		case zktree.SameACL(now.ACL, z.ACL):
		case u.overwrite, now.Stat.Czxid == z.Stat.Czxid && now.Stat.Aversion == z.Stat.Aversion+1, u.Left != nil && zktree.SameACL(now.ACL, u.Left):
			e.Old.Stat = now.Stat
			edits = append(edits, e)
		default:
			u.conflicts = append(u.conflicts, conflict{path: z.Path, what: z.Path + " has changed since the operation: the ACL is no longer the one that the operation set"})
		}
	}
	return edits, nil
}
