package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var mvCommand = &commands.Command{
	Name: "mv", Group: "Trees", Effect: commands.Writes | commands.Destroys,
	Except: func(_ *pflag.FlagSet, args []string) commands.Effect {
		if inOtherEnsemble(args, 0) && inOtherEnsemble(args, 1) {
			return commands.Writes
		}
		return 0
	},
	Args:    "src dst",
	Summary: "move a subtree within an ensemble",
	Help: "mv moves a subtree in a single transaction if the subtree fits into one.\n\n" +
		"Otherwise, mv first copies the subtree. It then compares the copy with the source, and deletes each znode of the " +
		"source that equals its copy. Znodes that have changed since they were copied stay. mv prints which method it used.\n\n" +
		"To move a subtree to another ensemble, run cp -R, compare the copy with diff, and then run deleteall.\n\n" +
		endpointHelp,
	Limits: []string{
		"mv moves nothing if DST exists, or if SRC contains an ephemeral or unreadable znode.",
		"A change of an ACL, or a znode that is deleted and created again, is noticed only up to one round trip before the deletion.",
		"Sequence counters start again, and quotas stay where they are.",
	},
	Examples: []string{"mv /app/old /archive/app", "mv @staging:/app @staging:/app.old"},
	Params:   []commands.Param{srcParam, dstParam},
	Flags: commands.NoFlags(func(ctx context.Context, env *commands.Env, args []string) error {
		if err := rejectFiles("mv", args...); err != nil {
			return err
		}
		return withEndpoints(ctx, env, args, func(list []*endpoint) error {
			m := &mover{copier{env: env, all: true}}
			return m.mv(ctx, list[0], list[1])
		})
	}),
}

// Limits on a move in a single transaction. They are far below a server's limit on the size of a
// request.
const (
	moveBytes  = 700 << 10
	moveZnodes = 4000
)

// mover is one run of the command mv. If possible, it moves the source in a single transaction;
// otherwise, it copies the source and then deletes it.
type mover struct{ copier }

func (m *mover) mv(ctx context.Context, src, dst *endpoint) error {
	if err := checkOneEnsemble(ctx, src, dst); err != nil {
		return err
	}
	if err := m.check(ctx, "mv", src, dst); err != nil {
		return err
	}
	if err := checkWrites(ctx, m.env, "mv", src); err != nil {
		return err
	}
	how, n, moved := "in one transaction", 0, false
	err := m.src.record(ctx, m.env, "mv", func(ctx context.Context, rec zktree.Recorder) (err error) {
		n, moved, err = m.moveAtomically(ctx, rec)
		return err
	})
	if err == nil && !moved {
		how = "copied, compared and deleted"
		n, err = m.copyAndDelete(ctx)
	}
	if err != nil {
		return err
	}
	m.printSequenceRemark()
	return printAnswer(m.env, fmt.Sprintf("Moved %s to %s (%s)", zktree.Znodes(n), dst.word, how),
		"done", "mv", "src", src.word, "dst", dst.word, "moved", n, "transaction", moved)
}

// checkOneEnsemble returns an error if the source and the destination are in different ensembles. A
// transaction cannot span both.
func checkOneEnsemble(ctx context.Context, src, dst *endpoint) error {
	_, _, same, err := sameEnsemble(ctx, src, dst)
	if err != nil || same {
		return err
	}
	from, to := commands.Quote(src.word), commands.Quote(dst.word)
	remove := "run deleteall " + commands.Quote(src.Path)
	if src.Spec != "" {
		remove += " on " + src.Spec
	}
	return commands.Misuse("nothing was moved, because mv works only within one ensemble, and %s and %s are in different ones; "+
		"run cp -R %s %s, and then %s", src.word, dst.word, from, to, remove)
}

// moveAtomically moves the source in a single transaction. moved is false if that is not possible,
// or might exceed a hard quota. n is the number of znodes in the source.
func (m *mover) moveAtomically(ctx context.Context, rec zktree.Recorder) (n int, moved bool, err error) {
	if m.src.session != m.dst.session { // the arguments name the ensemble in two ways
		return 0, false, nil
	}
	all, fits, err := m.readSource(ctx)
	if err != nil || !fits {
		return 0, false, err
	}
	var edits []*zktree.Edit
	for _, z := range all {
		to := zktree.Rebase(z.Path, m.src.Path, m.dst.Path)
		edits = append(edits, &zktree.Edit{Does: zktree.Creates, Path: to, New: z})
	}
	for _, z := range slices.Backward(all) {
		edits = append(edits, &zktree.Edit{Does: zktree.Deletes, Path: z.Path, Old: z})
	}
	maybe, err := zktree.Together(ctx, m.src.session.Client, edits, m.src.target(rec))
	switch {
	case err == nil:
		return len(all), true, nil
	case errors.As(err, new(*zktree.QuotaError)): // write the znodes one by one, so that the server decides
		return 0, false, nil
	case maybe:
		err = fmt.Errorf("zksh does not know whether the move took effect; the entire subtree is either still at %s or already at %s: %w", m.src.word, m.dst.word, err)
	case errors.Is(err, zkconn.BadVersion), errors.Is(err, zkconn.NotEmpty), errors.As(err, new(*zktree.ChangedError)),
		errors.Is(err, zkconn.NoNode) && dump.Within(zkconn.PathOf(err), m.src.Path):
		err = fmt.Errorf("nothing was moved, because %s changed after zksh had read it: %w", m.src.word, err)
	default:
		err = fmt.Errorf("nothing was moved: %w", m.src.wrap(err))
	}
	return len(all), false, err
}

// readSource reads the znodes of the source. fits is false if a single transaction cannot move
// them, because they are too large or because an ACL would prevent zksh from creating the children
// of a znode.
func (m *mover) readSource(ctx context.Context) (all []*dump.Znode, fits bool, err error) {
	update, end := m.env.Screen.Progress("read")
	defer end()
	t, err := m.src.subtree(ctx, update)
	if err != nil {
		return nil, false, err
	}
	size := 0
	err = m.each(t, m.filter, func(z *dump.Znode) error {
		size += len(z.Data) + 2*len(z.Path) + len(m.dst.Path) + 128
		for _, a := range z.ACL {
			size += len(a.ID) + len(a.Scheme) + 16
		}
		if all = append(all, z); size > moveBytes || len(all) > moveZnodes || zktree.ShutsOut(z) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil, false, nil
	}
	return all, err == nil, err
}

// filter is like copier.filter, but returns an error for each znode that a copy would leave out.
func (m *mover) filter(z *dump.Znode, refusal error) (bool, error) {
	switch drop, err := m.copier.filter(z, refusal); {
	case err != nil:
		return false, err
	case drop && m.unread.N > 0:
		return false, fmt.Errorf("nothing was moved: %w", &m.unread)
	case drop:
		return false, fmt.Errorf("nothing was moved, because %s is ephemeral and would become persistent; to copy it as a persistent znode, use cp -e", z.Path)
	}
	return false, nil
}

// copyAndDelete copies the source, and then deletes each znode of the source that equals its copy.
func (m *mover) copyAndDelete(ctx context.Context) (int, error) {
	t, err := m.src.subtree(ctx, nil)
	if err == nil {
		// Before anything is created, check that every znode can be moved.
		err = m.each(t, m.filter, func(*dump.Znode) error { return nil })
	}
	if err != nil {
		return 0, err
	}
	m.env.Screen.Note(fmt.Sprintf("cannot move %s to %s in one transaction; zksh copies it, compares the copy with the source, and then deletes the source",
		m.src.word, m.dst.word))
	if err := m.dst.record(ctx, m.env, "mv", m.copy); err != nil || m.unread.N+m.leftOut > 0 {
		return 0, fmt.Errorf("nothing was deleted from the source %s, but its copy at %s is incomplete (to remove the copy, use deleteall): %w",
			m.src.word, m.dst.word, errors.Join(err, m.leftOutError()))
	}
	n := 0
	err = m.src.record(ctx, m.env, "mv", func(ctx context.Context, rec zktree.Recorder) (err error) {
		n, err = m.deleteSource(ctx, rec)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("the subtree was copied completely to %s, but zksh deleted only %s of the source: %w", m.dst.word, zktree.Znodes(n), m.src.wrap(err))
	}
	return n, nil
}

// leftOutError returns an error if an ephemeral znode was left out of the copy. Such a znode must
// have been created during the move.
func (m *mover) leftOutError() error {
	if m.leftOut > 0 {
		return fmt.Errorf("%s appeared during the move", zktree.Ephemerals(m.leftOut))
	}
	return nil
}

// deleteSource deletes each znode of the source that equals its copy, children before their parents.
// It leaves a znode as it is if another client has changed or created it during the move.
func (m *mover) deleteSource(ctx context.Context, rec zktree.Recorder) (int, error) {
	update, end := m.env.Screen.Progress("deleted")
	defer end()
	src, err := m.src.subtree(ctx, nil)
	if err != nil {
		return 0, err
	}
	dst, err := m.dst.subtree(ctx, nil)
	if err != nil {
		return 0, err
	}
	var kept zktree.Refusals
	copied := func(yield func(zktree.Difference, error) bool) {
		for d, err := range zktree.Pairs(src, dst) {
			switch {
			case err != nil:
			case d.Err != nil:
				kept.Add(d.Err)
				continue
			case d.A == nil: // another client has created it at the destination
				continue
			case d.B == nil || d.Aspect != 0:
				kept.Add(fmt.Errorf("%s changed during the move, so zksh did not delete it", d.A.Path))
				continue
			default:
				d.B = nil
			}
			if !yield(d, err) {
				return
			}
		}
	}
	deletions := zktree.Plan(copied)
	done, err := zktree.Apply(ctx, m.src.session.Client, deletions, m.src.target(rec), zktree.LeaveAlone, update)
	if kept.N > 0 {
		err = errors.Join(&kept, err)
	}
	return done.Deleted, err
}
