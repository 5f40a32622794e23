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
		if elsewhere(args, 0) && elsewhere(args, 1) {
			return commands.Writes
		}
		return 0
	},
	Args:    "src dst",
	Summary: "move a subtree, within or between ensembles",
	Help: "Within one ensemble, mv moves a subtree in a single transaction if the subtree fits into one, so no concurrent " +
		"change is lost.\n\n" +
		"Otherwise, mv first copies the subtree and compares the copy with the source. It then deletes the source, except for " +
		"znodes that have changed since they were copied. mv prints which method it used.\n\n" +
		sideHelp,
	Limits: []string{
		"mv moves nothing if DST exists, or if SRC contains an ephemeral or unreadable znode.",
		"mv does not notice a change during the move that affects only an ACL.",
		"Sequence counters start again, and quotas stay where they are.",
	},
	Examples: []string{"mv /app/old /archive/app", "mv /app @standby:/app"},
	Params:   []commands.Param{srcParam, dstParam},
	Flags: commands.NoFlags(func(ctx context.Context, env *commands.Env, args []string) error {
		if err := live("mv", args...); err != nil {
			return err
		}
		return within(ctx, env, args, func(list []*side) error {
			m := &moving{copying{env: env, all: true}}
			return m.mv(ctx, list[0], list[1])
		})
	}),
}

// The bounds of a move by one transaction, well below a server's limit for a request.
const (
	moveBytes  = 700 << 10
	moveZnodes = 4000
)

// moving is a copy whose source goes.
type moving struct{ copying }

func (m *moving) mv(ctx context.Context, src, dst *side) error {
	if err := m.begin(ctx, "mv", src, dst); err != nil {
		return err
	}
	if err := mayWrite(ctx, m.env, "mv", src); err != nil {
		return err
	}
	how, n, moved := "in one transaction", 0, false
	there := *m.env
	there.Session = m.src.session
	err := there.Losing(ctx, commands.Loss{Command: "mv", Path: src.Path, Of: commands.LostTree, Version: -1}, func(ctx context.Context, _ int32) (err error) {
		if n, moved, err = m.atOnce(ctx); err == nil && !moved {
			how = "copied, compared and deleted"
			n, err = m.slowly(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	m.remarkNumbers()
	return answer(m.env, fmt.Sprintf("Moved %s to %s (%s)", zktree.Znodes(n), dst.word, how),
		"done", "mv", "src", src.word, "dst", dst.word, "moved", n, "transaction", moved)
}

// atOnce moves by one transaction what one can hold. moved is false if it cannot.
func (m *moving) atOnce(ctx context.Context) (n int, moved bool, err error) {
	if m.src.session != m.dst.session {
		return 0, false, nil
	}
	all, fits, err := m.some(ctx)
	if err != nil || !fits {
		return 0, false, err
	}
	var changes []zkconn.Change
	for _, z := range all {
		to := zktree.Tree{Root: m.dst.Path}.At(zktree.Tree{Root: m.src.Path}.Below(z.Path))
		changes = append(changes, zkconn.Creation(to, z.Data, z.ACL, zkconn.CreateMode{}))
	}
	for _, z := range slices.Backward(all) {
		changes = append(changes, zkconn.Removal(z.Path, z.Stat.Version))
	}
	outcome, err := m.src.session.Multi(ctx, changes)
	switch {
	case err == nil:
	case errors.Is(err, zkconn.BadVersion), errors.Is(err, zkconn.NotEmpty), errors.Is(err, zkconn.NoNode) && dump.Within(zkconn.PathOf(err), m.src.Path):
		err = fmt.Errorf("nothing was moved, because %s changed after zksh had read it: %w", m.src.word, err)
	case outcome.MayHaveHappened():
		err = fmt.Errorf("zksh does not know whether the move took effect; the entire subtree is either still at %s or already at %s: %w", m.src.word, m.dst.word, err)
	default:
		err = fmt.Errorf("nothing was moved: %w", m.src.wrap(err))
	}
	return len(all), err == nil, err
}

// some reads all of the source, if it fits into one transaction: no folder may keep us
// from making what is below it.
func (m *moving) some(ctx context.Context) (all []*dump.Znode, fits bool, err error) {
	update, end := m.env.Screen.Progress("read")
	defer end()
	t, err := m.src.nodes(ctx, update)
	if err != nil {
		return nil, false, err
	}
	size := 0
	errBig := errors.New("too much")
	err = m.each(t.Without(m.look), func(z *dump.Znode) error {
		size += len(z.Data) + 2*len(z.Path) + len(m.dst.Path) + 128
		for _, a := range z.ACL {
			size += len(a.ID) + len(a.Scheme) + 16
		}
		if all = append(all, z); size > moveBytes || len(all) > moveZnodes || zktree.ShutsOut(z) {
			return errBig
		}
		return nil
	})
	if errors.Is(err, errBig) {
		return nil, false, nil
	}
	return all, err == nil, err
}

// look is that of a copy, but that all must be there.
func (m *moving) look(z *dump.Znode, refusal error) (bool, error) {
	switch drop, err := m.copying.look(z, refusal); {
	case err != nil:
		return false, err
	case drop && m.unread.N > 0:
		return false, fmt.Errorf("nothing was moved: %w", &m.unread)
	case drop:
		return false, fmt.Errorf("nothing was moved, because %s is ephemeral and would become persistent; to copy it as a persistent znode, use cp -e", z.Path)
	}
	return false, nil
}

// slowly copies, compares and deletes. Nothing is deleted of what could not be seen to be
// the same in both places.
func (m *moving) slowly(ctx context.Context) (int, error) {
	t, err := m.src.nodes(ctx, nil)
	if err == nil {
		err = m.each(t.Without(m.look), func(*dump.Znode) error { return nil }) // before anything is made
	}
	if err != nil {
		return 0, err
	}
	m.env.Screen.Note(fmt.Sprintf("cannot move %s to %s in one transaction; zksh copies it, compares the copy with the source, and then deletes the source",
		m.src.word, m.dst.word))
	partial := func(err error) error {
		return fmt.Errorf("nothing was deleted from the source %s, but its copy at %s is incomplete (to remove the copy, use deleteall): %w", m.src.word, m.dst.word, err)
	}
	if err := m.copy(ctx); err != nil || m.unread.N+m.left > 0 {
		return 0, partial(errors.Join(err, m.incomplete()))
	}
	zxid, err := zkconn.Do(ctx, m.src.session, zkconn.Zxid())
	if err == nil {
		err = m.compare(ctx)
	}
	if err != nil {
		return 0, partial(err)
	}
	n, err := m.remove(ctx, zxid)
	if err != nil {
		return n, fmt.Errorf("the subtree was copied completely to %s, but zksh deleted only %s of the source: %w", m.dst.word, zktree.Znodes(n), m.src.wrap(err))
	}
	return n, nil
}

// incomplete is the error of a source of which something was left out while it was copied.
func (m *moving) incomplete() error {
	if m.left > 0 {
		return fmt.Errorf("%s appeared during the move", zktree.Ephemerals(m.left))
	}
	return nil
}

// compare is an error unless the copy is the same as the source.
func (m *moving) compare(ctx context.Context) error {
	src, err := m.src.nodes(ctx, nil)
	if err != nil {
		return err
	}
	dst, err := m.dst.nodes(ctx, nil)
	if err != nil {
		return err
	}
	for d, err := range zktree.Compare(src, dst) {
		switch {
		case err != nil:
			return err
		case d.Err != nil:
			return d.Err
		default:
			return fmt.Errorf("the znode %s changed during the move and no longer matches its copy", src.At(d.Below))
		}
	}
	return nil
}

// remove deletes the source, leaves first, as far as nothing has changed since zxid.
func (m *moving) remove(ctx context.Context, zxid int64) (int, error) {
	update, end := m.env.Screen.Progress("deleted")
	defer end()
	src, err := zktree.OnServer(ctx, m.src.session.Client, m.src.Path, false)
	if err != nil {
		return 0, err
	}
	walk, err := zktree.Begin(ctx, src, m.src.Path, zktree.Options{Stat: true})
	if err != nil {
		return 0, err
	}
	done, err := zktree.Write(ctx, m.src.session.Client, m.src.word, zktree.Refuse, update, func(w *zktree.Writer) error {
		return m.removeBy(walk, w, zxid)
	})
	return done.Deleted, err
}

func (m *moving) removeBy(walk *zktree.Walk, w *zktree.Writer, zxid int64) error {
	for s, err := range walk.Steps() {
		switch {
		case err != nil:
			return err
		case s.Kind == zktree.Pause || s.Kind == zktree.Enter && len(s.Names) > 0:
			continue
		case s.Err != nil:
			return s.Err
		case s.Stat == nil || max(s.Stat.Czxid, s.Stat.Mzxid) > zxid:
			return fmt.Errorf("the znode %s changed during the move, so zksh did not delete that znode or its ancestors", s.Path())
		}
		if err := w.Do(zktree.Edit{Does: zktree.Deletes, Path: s.Path(), Version: s.Stat.Version}); err != nil {
			return err
		}
	}
	return nil
}
