package transfer

import (
	"context"
	"errors"
	"iter"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zktree"
)

// planned is a step in what import -n answers.
type planned struct{ step }

var deedNames = map[deed]string{leaves: "leave", creates: "create", sets: "set", setsACL: "setAcl", deletes: "delete"}

// Cells is part of render.Item.
func (p planned) Cells() []string { return []string{deedNames[p.does], render.OneLine(p.path)} }

// JSON is part of render.Item.
func (p planned) JSON() any { return render.Facts{"does", deedNames[p.does], "path", p.path} }

// print shows what would be done.
func (im *importing) print(ctx context.Context) error {
	update, end := im.env.Screen.Progress("compared")
	defer end()
	var failed error
	v := &render.Stream{
		Open: render.Facts{"path", im.to, "file", im.file}, List: "steps", Bare: true,
		Columns: []render.Column{{Header: "does", Width: 6}, {Header: "path"}},
		Items: func(yield func(render.Item) bool) {
			for s, err := range im.steps(ctx, update) {
				if failed = err; err != nil || !yield(planned{s}) {
					return
				}
			}
		},
		End: func() error { return errors.Join(failed, im.end()) },
	}
	if err := im.env.Screen.Print(v); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	n := im.count.steps
	im.env.Screen.Note(im.summary("nothing was done; import would create", zktree.Counts{Created: n[creates], Changed: n[sets] + n[setsACL], Deleted: n[deletes]}))
	return im.end()
}

// steps make what is there like the file, as far as the policy goes.
func (im *importing) steps(ctx context.Context, progress zktree.Progress) iter.Seq2[step, error] {
	im.count = tally{steps: map[deed]int{}, unread: zktree.UnreadError{Root: im.to}}
	there := im.there(ctx, progress)
	return func(yield func(step, error) bool) {
		for s, err := range steps(im.wanted(zktree.Compare(there, im.kept())), there) {
			if err == nil {
				im.take(s)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// take takes note of a step.
func (im *importing) take(s step) {
	im.count.steps[s.does]++
	if s.missing {
		im.count.missing.Add(s.missingError())
	}
	if s.does == creates && s.z.ACL == nil {
		im.count.open++
	}
}

// wanted are the differences that the policy sees to.
func (im *importing) wanted(all iter.Seq2[zktree.Difference, error]) iter.Seq2[zktree.Difference, error] {
	return func(yield func(zktree.Difference, error) bool) {
		for d, err := range all {
			switch {
			case err != nil:
			case d.Err != nil:
				im.count.unread.Add(d.Err)
			case d.B == nil && im.policy != prunes,
				d.A != nil && d.B != nil && (im.policy < overwrites || im.tree.MadeUp(d.B.Path)):
				continue
			case d.B != nil && d.B.Kind == dump.Ephemeral && d.A == nil: // a copy is wished
				z := *d.B
				z.Kind, d.B = dump.Persistent, &z
				im.count.copies++
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// kept is the tree of the file, without what does not come back.
func (im *importing) kept() zktree.Tree {
	t := zktree.Tree{Root: im.only, Nodes: im.tree.Znodes(im.only)}
	to := zktree.Tree{Root: im.to}
	return t.Without(func(z *dump.Znode, err error) (drop bool, _ error) {
		switch {
		case err != nil:
			return false, err
		case dump.Within(im.env.Session.ServerPath(to.At(t.Below(z.Path))), reserved):
			return true, nil
		case z.Kind == dump.Ephemeral && !im.ephemeral:
			im.count.ephemerals++
			return true, nil
		}
		im.count.seen++
		return false, nil
	})
}

// there is the tree that is at the target.
func (im *importing) there(ctx context.Context, progress zktree.Progress) zktree.Tree {
	if im.empty {
		return zktree.Tree{Root: im.to, Nodes: func(func(*dump.Znode, error) bool) {}}
	}
	return zktree.ServerTree(ctx, im.env.Session.Client, im.to, progress).OrEmpty().Without(func(z *dump.Znode, _ error) (bool, error) {
		return dump.Within(im.env.Session.ServerPath(z.Path), reserved), nil
	})
}
