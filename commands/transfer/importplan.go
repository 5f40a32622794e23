package transfer

import (
	"context"
	"errors"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

var _ render.Item = planItem{}

// planItem is one change in the output of import -n.
type planItem struct{ *zktree.Edit }

var editNames = map[zktree.Deed]string{zktree.Leaves: "leave", zktree.Creates: "create", zktree.Sets: "set", zktree.Opens: "setAcl", zktree.SetsACL: "setAcl", zktree.Deletes: "delete"}

func (p planItem) Cells() []string { return []string{editNames[p.Does], render.OneLine(p.Path)} }

func (p planItem) JSON() any { return render.Facts{"does", editNames[p.Does], "path", p.Path} }

// printPlan prints the changes that the import would make, without making them.
func (im *importer) printPlan(ctx context.Context) error {
	update, end := im.env.Screen.Progress("compared")
	defer end()
	var failed error
	v := &render.Stream{
		Open: render.Facts{"path", im.to, "file", im.file}, List: "steps", Bare: true,
		Columns: []render.Column{{Header: "does", Width: 6}, {Header: "path"}},
		Items: func(yield func(render.Item) bool) {
			for e, err := range im.edits(ctx, update) {
				if failed = err; err != nil || !yield(planItem{e}) {
					return
				}
			}
		},
		End: func() error { return errors.Join(failed, im.endError()) },
	}
	if err := im.env.Screen.Print(v); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	n := im.deeds
	im.env.Screen.Note(im.summary("nothing was done; import would create", zktree.Counts{Created: n[zktree.Creates], Changed: im.changed, Deleted: n[zktree.Deletes]}))
	return im.endError()
}

// edits returns the changes that make the target equal to the file, and counts them. It omits changes that
// the flags do not allow.
func (im *importer) edits(ctx context.Context, progress zktree.Progress) zktree.Edits {
	im.tally = tally{unread: zktree.UnreadError{Root: im.to}}
	im.seen, im.ephemerals, im.copies = 0, 0, 0
	current := im.currentTree(ctx, progress)
	return im.count(zktree.Plan(im.allowed(zktree.Compare(current, im.fileTree()))))
}

// allowed yields the differences that import may resolve, given the command's flags.
func (im *importer) allowed(all zktree.Differences) zktree.Differences {
	return func(yield func(zktree.Difference, error) bool) {
		for d, err := range all {
			switch {
			case err != nil:
			case d.Err != nil:
				im.unread.Add(d.Err)
			case d.B == nil && !im.prune,
				d.A != nil && d.B != nil && (im.onExisting != zktree.Overwrite || im.tree.MadeUp(d.B.Path)):
				continue
			// With the flag -e, import creates a persistent copy of an ephemeral znode. Without the
			// flag, fileTree has already dropped such znodes.
			case d.B != nil && d.B.Kind == dump.Ephemeral && d.A == nil:
				z := *d.B
				z.Kind, d.B = dump.Persistent, &z
				im.copies++
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// fileTree returns the znodes of the file that import may create or change.
func (im *importer) fileTree() zktree.Tree {
	return zktree.Tree{Root: im.only, Nodes: func(yield func(*dump.Znode, error) bool) {
		for z, err := range im.tree.Znodes(im.only) {
			switch {
			case err != nil:
			case im.isReserved(zktree.Rebase(z.Path, im.only, im.to)):
				continue
			case z.Kind == dump.Ephemeral && !im.ephemeral:
				im.ephemerals++
				continue
			default:
				im.seen++
			}
			if !yield(z, err) {
				return
			}
		}
	}}
}

// isReserved reports whether a path of the shell's ensemble is reserved for the server's own znodes.
func (im *importer) isReserved(path string) bool {
	return dump.Within(im.env.Session.ServerPath(path), reserved)
}

// currentTree returns the znodes that currently exist at the import's target.
func (im *importer) currentTree(ctx context.Context, progress zktree.Progress) zktree.Tree {
	if im.targetIsNew {
		return zktree.Tree{Root: im.to, Nodes: func(func(*dump.Znode, error) bool) {}}
	}
	all := zktree.ServerTree(ctx, im.env.Session.Client, im.to, progress).OrEmpty().Nodes
	return zktree.Tree{Root: im.to, Nodes: func(yield func(*dump.Znode, error) bool) {
		for z, err := range all {
			if (z == nil || !im.isReserved(z.Path)) && !yield(z, err) {
				return
			}
		}
	}}
}
