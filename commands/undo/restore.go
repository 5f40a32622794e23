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

// compare reads the znodes that the operation has changed, and plans how to take the changes back.
// Whatever is not as the operation left it becomes a conflict.
func (u *undoing) compare(ctx context.Context) (err error) {
	if u.changes, err = u.s.changes(ctx, u.entry); err != nil {
		return err
	}
	if err := u.followUndos(ctx); err != nil {
		return err
	}
	paths := make([]string, len(u.changes))
	for i, c := range u.changes {
		paths[i] = c.path
	}
	update, end := u.env.Screen.Progress("compared")
	defer end()
	at := 0
	for now, err := range zktree.Read(ctx, u.env.Session.Client, paths) {
		switch {
		case now == nil:
			return err
		case errors.Is(err, zkconn.NoNode):
			now, err = nil, nil
		}
		u.judge(u.changes[at], now, err)
		at++
		update(at, len(paths))
	}
	u.planDeletions()
	return nil
}

// followUndos corrects the versions that the operation left, if later operations were undone: the
// znodes are then again as this operation left them, but have other versions.
func (u *undoing) followUndos(ctx context.Context) error {
	all, err := u.s.list()
	if err != nil {
		return err
	}
	own := map[string]*change{}
	for _, c := range u.changes {
		own[c.path] = c
	}
	for _, e := range slices.Backward(all) { // the oldest first
		if e.Undoes <= u.N || e.checkServers(u.env) != nil {
			continue
		}
		restored, err := u.s.changes(ctx, e)
		if err != nil {
			return err
		}
		for _, c := range restored {
			if mine := own[c.path]; mine != nil {
				mine.follow(c)
			}
		}
	}
	return nil
}

// follow corrects the versions that an operation left, if a later undo has restored that state. Data and
// ACL count separately.
func (c *change) follow(undo *change) {
	was, now := undo.restores, undo.left
	if undo.maybe || c.left == nil || was == nil || now == nil || c.left.Czxid != was.Czxid {
		return
	}
	left := *c.left
	if left.Czxid != now.Czxid {
		left = versions{now.Czxid, -1, -1}
	}
	if undo.what&zktree.DataDiffers != 0 && c.left.Data == was.Data {
		left.Data = now.Data
	}
	if undo.what&zktree.ACLDiffers != 0 && c.left.ACL == was.ACL {
		left.ACL = now.ACL
	}
	c.left = &left
}

// judge compares the present state of a znode with the one that the operation left. now is nil if the
// znode does not exist. hidden is the reason why it is unreadable, or nil.
func (u *undoing) judge(c *change, now *dump.Znode, hidden error) {
	cannotExist := now == nil && u.gone != "" && dump.Within(c.path, u.gone)
	switch {
	case c.queued || c.before != nil && c.before.Kind == dump.Ephemeral && c.left == nil: // it is not restored
	case c.lost, cannotExist:
		if now != nil || c.left == nil {
			u.unsaved++
		}
		if now == nil && !cannotExist {
			u.gone = c.path
		}
	case now == nil && c.before == nil:
	case now == nil && c.left == nil:
		u.plan = append(u.plan, "create "+c.path)
		u.differences = append(u.differences, zktree.Difference{Path: c.path, B: c.before})
	case now == nil:
		u.conflicts = append(u.conflicts, conflict{path: c.path, final: true, maybe: c.maybe,
			what: c.path + " was deleted after the operation; create it, then run undo again"})
	case c.before == nil:
		if _, theirs := c.compare(now, hidden, zktree.DataDiffers|zktree.ACLDiffers); theirs == 0 || u.overwrite {
			u.created = append(u.created, now)
			return
		}
		u.addConflict(c, zktree.Difference{A: now}, hidden)
	default:
		u.judgeChanged(c, now, hidden)
	}
}

// judgeChanged is like judge, for a znode that existed before the operation and exists now.
func (u *undoing) judgeChanged(c *change, now *dump.Znode, hidden error) {
	was := c.before
	d := zktree.Difference{Path: c.path, A: now, B: was, Aspect: zktree.DataDiffers | zktree.ACLDiffers}
	masked := slices.ContainsFunc(now.ACL, zkconn.Masked)
	if hidden == nil {
		d.Differs()
	} else {
		if masked && zktree.SameData(now.Data, was.Data) {
			d.Aspect &^= zktree.DataDiffers
		}
		if was.ACL == nil || !masked && now.ACL != nil && zktree.SameACL(now.ACL, was.ACL) {
			d.Aspect &^= zktree.ACLDiffers
		}
	}
	if c.left != nil {
		d.Aspect &= c.what
	}
	wanted := *was
	wanted.Kind, d.B = dump.Persistent, &wanted // an ephemeral znode that still exists can get its old state, too
	own, theirs := c.compare(now, hidden, d.Aspect)
	if d.Aspect&zktree.KindDiffers == 0 && u.overwrite {
		own, theirs = own|theirs, 0
	}
	if theirs != 0 {
		conflicting := d
		conflicting.Aspect = theirs
		u.addConflict(c, conflicting, hidden)
	}
	if own != 0 {
		u.plan = append(u.plan, "change "+c.path)
		d.Aspect, now.Data = own, nil // save memory
		u.differences = append(u.differences, d)
	}
}

// compare divides the aspects in which a znode differs from its old state: own are those that are as
// the operation left them, and theirs those that somebody has changed since. It leaves out the aspects
// that the operation has not changed. hidden is the reason why the znode cannot be read, or nil.
func (c *change) compare(now *dump.Znode, hidden error, differs zktree.Aspect) (own, theirs zktree.Aspect) {
	st := now.Stat
	if c.before != nil && c.before.Stat != nil && st != nil {
		same := st.Czxid == c.before.Stat.Czxid && (c.left == nil || c.left.Czxid == st.Czxid)
		if same && st.Version == c.before.Stat.Version {
			differs &^= zktree.DataDiffers
		}
		if same && st.Aversion == c.before.Stat.Aversion {
			differs &^= zktree.ACLDiffers
		}
	}
	if c.left == nil || st == nil || c.left.Czxid != 0 && c.left.Czxid != st.Czxid {
		return 0, differs
	}
	masked := slices.ContainsFunc(now.ACL, zkconn.Masked)
	knownData, knownACL := hidden == nil || masked, now.ACL != nil && !masked
	if differs&zktree.DataDiffers != 0 && st.Version == c.left.Data &&
		(!c.maybe || !knownData && c.before != nil || knownData && c.wrote == hashOf(now.Data)) {
		own |= zktree.DataDiffers
	}
	if differs&zktree.ACLDiffers != 0 && st.Aversion == c.left.ACL &&
		(!c.maybe || !knownACL || c.acl == nil && c.before == nil || zktree.FitsACL(now.ACL, c.acl)) {
		own |= zktree.ACLDiffers
	}
	return own, differs &^ own
}

// planDeletions plans to delete the znodes that the operation created. A znode that has got other
// children since stays. If a znode that the operation deleted cannot be restored, all of them stay,
// because they may be its only copy.
func (u *undoing) planDeletions() {
	kept := slices.ContainsFunc(u.conflicts, func(c conflict) bool { return c.gone })
	children, unclear := map[string]int{}, map[string]int{}
	for _, c := range u.conflicts {
		if c.maybe {
			unclear[dump.Parent(c.path)]++
		}
	}
	for _, z := range slices.Backward(u.created) {
		found := conflict{path: z.Path, final: true}
		switch others := int(z.Stat.NumChildren) - children[z.Path]; {
		case kept:
			found.what = z.Path + " is not deleted, because not everything that the operation deleted can be restored"
		case others > 0 && others <= unclear[z.Path]:
			found.what = z.Path + " has children that the operation may have created"
			found.maybe = true
			unclear[dump.Parent(z.Path)]++
		case others != 0:
			found.what = z.Path + " has children that were created after the operation"
		}
		if found.what != "" {
			u.conflicts = append(u.conflicts, found)
			continue
		}
		children[dump.Parent(z.Path)]++
		u.plan = append(u.plan, "delete "+z.Path)
		u.deletions = append(u.deletions, &zktree.Edit{Does: zktree.Deletes, Path: z.Path, Old: z})
	}
}

// addConflict adds a conflict for a znode that exists and is not as the operation left it.
func (u *undoing) addConflict(c *change, d zktree.Difference, hidden error) {
	found := conflict{path: c.path, maybe: c.maybe, gone: c.left == nil, final: d.Aspect&zktree.KindDiffers != 0}
	var parts []string
	if d.B == nil {
		parts = append(parts, "it is no longer as the operation created it")
	}
	if d.Aspect&zktree.KindDiffers != 0 {
		parts = append(parts, "it is now "+d.A.Kind.String())
	}
	if d.Aspect&zktree.ACLDiffers != 0 {
		parts = append(parts, "the ACL is different")
	}
	switch {
	case hidden != nil:
		parts = append(parts, "it cannot be read: "+hidden.Error())
	case d.Aspect&zktree.DataDiffers != 0:
		parts = append(parts, fmt.Sprintf("the data is now %s (version %d), and undo would restore the saved %s",
			inBytes(len(d.A.Data)), d.A.Stat.Version, inBytes(len(d.B.Data))))
		found.diff = commands.DataDiff(d.A.Data, d.B.Data)
	}
	found.what = fmt.Sprintf("%s has changed since the operation: %s", c.path, strings.Join(parts, "; "))
	if found.diff != "" {
		found.what += ":"
	}
	u.conflicts = append(u.conflicts, found)
}

// inBytes returns a size with its unit as text, such as "1 byte".
func inBytes(n int) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// apply carries out the plan, and records it as an operation. It deletes znodes only if everything else
// was restored.
func (u *undoing) apply(ctx context.Context) error {
	env, root := u.env, u.root()
	r, is := env.Recorder.(*Recorder)
	if !is { // in a script, where other commands are not recorded
		r = u.log.Recorder()
	}
	c := &recording{env: env, command: fmt.Sprintf("%s %d", undoName, u.N), path: u.Path, undoes: u.N}
	return r.record(ctx, c, func(ctx context.Context, rec zktree.Recorder) error {
		update, end := env.Screen.Progress("restored")
		defer end()
		target := zktree.Target{Path: root, Name: u.Path, Recorder: rec}
		var left zktree.Refusals
		restoring := func(yield func(*zktree.Edit, error) bool) {
			for e, err := range zktree.Plan(zktree.Seq(u.differences)) {
				if err == nil && e.Does == zktree.Leaves {
					left.Add(e.Why)
				}
				if !yield(e, err) {
					return
				}
			}
		}
		for _, edits := range []zktree.Edits{restoring, zktree.Seq(u.deletions)} {
			done, err := zktree.Apply(ctx, env.Session.Client, edits, target, zktree.LeaveAlone, update)
			u.counts.Created += done.Created
			u.counts.Changed += done.Changed
			u.counts.Deleted += done.Deleted
			if err == nil && left.N > 0 {
				err = &left
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// root returns the lowest common ancestor of the changed znodes.
func (u *undoing) root() string {
	root := u.changes[0].path
	for _, c := range u.changes {
		for !dump.Within(c.path, root) {
			root = dump.Parent(root)
		}
	}
	return root
}
