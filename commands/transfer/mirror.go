package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktree"
)

var mirrorCommand = &commands.Command{
	Name: "mirror", Group: "Trees", Effect: commands.Writes | commands.Destroys | commands.Sweeps,
	Except: func(fs *pflag.FlagSet, args []string) commands.Effect {
		return commands.ByFlag(map[string]commands.Effect{commands.DryRun: commands.Writes})(fs, args) | writesTo(fs, args)
	},
	Args:    "[-n] [-y] src dst",
	Summary: "make a subtree match another, within or between ensembles",
	Help: "mirror makes DST match SRC: it creates missing znodes, overwrites those that differ, and deletes those that are " +
		"only in DST. Znodes that changed after zksh read them are left alone. At the prompt, mirror asks before it " +
		"deletes anything.\n\n" +
		endpointHelp +
		" SRC can also be a file, as in diff.\n\n" +
		"With -n, mirror only prints the differences. To keep DST up to date, run mirror regularly, for example from cron " +
		"(see help trees).",
	Limits:   []string{"Ephemeral znodes, and everything below an unreadable znode, are left alone."},
	Examples: []string{"mirror /app @standby:/app", "mirror -n ./app.json.gz /app"},
	Params:   []commands.Param{srcParam, dstParam},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		plan := fs.BoolP(commands.DryRun, "n", false, "only print the differences; change nothing")
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		return func(ctx context.Context, env *commands.Env, args []string) error {
			if err := rejectFiles("mirror", args[1]); err != nil {
				return err
			}
			return withEndpoints(ctx, env, args, func(list []*endpoint) error {
				m := &mirror{env: env, src: list[0], dst: list[1], dryRun: *plan, sure: *sure || env.Mode != commands.ByHand}
				switch err := m.check(ctx); {
				case err != nil:
					return err
				case *plan:
					d := &comparison{env: env, a: m.dst, b: m.src, mayBeMissing: true}
					if err := d.show(ctx); !errors.Is(err, errDiffer) {
						return err
					}
					env.Screen.Note("nothing was done")
					return nil
				}
				return m.dst.record(ctx, env, "mirror", m.run)
			})
		}
	},
}

// mirror is one run of the command mirror, which makes the destination equal to the source.
type mirror struct {
	env      *commands.Env
	src, dst *endpoint
	dryRun   bool // whether to only print the differences
	sure     bool // whether to delete znodes without asking

	tally
}

// check returns an error if the source cannot be mirrored to the destination.
func (m *mirror) check(ctx context.Context) error {
	if err := checkNotReserved(m.dst); err != nil {
		return err
	}
	if !m.dryRun {
		if err := checkWrites(ctx, m.env, "mirror", m.dst); err != nil {
			return err
		}
	}
	if m.src.tree != nil {
		if err := m.src.checkComplete(); err != nil {
			return fmt.Errorf("nothing was done: %w; mirror could delete znodes on the servers that are missing only from the file; use import -R --overwrite, which deletes nothing", err)
		}
		return nil
	}
	if err := checkNotReserved(m.src); err != nil {
		return err
	}
	return checkSeparate(ctx, "mirror", m.src, m.dst)
}

// run mirrors the source to the destination, and prints the result.
func (m *mirror) run(ctx context.Context, rec zktree.Recorder) error {
	done, err := m.write(ctx, rec)
	if err != nil {
		return err
	}
	words := fmt.Sprintf("%s now matches %s: %d created, %d changed, %d deleted",
		m.dst.word, m.src.word, done.Created, done.Changed, done.Deleted)
	if m.leftAlone() > 0 {
		words += fmt.Sprintf(", %d left as they are", m.leftAlone())
	}
	return printAnswer(m.env, words, "done", "mirror", "src", m.src.word, "dst", m.dst.word,
		"created", done.Created, "changed", done.Changed, "deleted", done.Deleted, "left_alone", m.leftAlone())
}

// write compares the source with the destination and removes the differences. Deletions come last.
// A change or deletion fails if another client has changed the znode after the comparison.
func (m *mirror) write(ctx context.Context, rec zktree.Recorder) (done zktree.Counts, err error) {
	m.unread.Root = m.src.word + " and " + m.dst.word
	all, err := differences(ctx, m.dst, m.src, nil, &m.unread, true)
	if err != nil {
		return done, err
	}
	update, end := m.env.Screen.Progress("mirrored")
	defer end()
	done, err = m.apply(ctx, all, rec, update, end)
	errs := []error{m.dst.wrap(err), m.unread.OrNil()}
	if n := m.missing.N; n > 0 {
		errs = append(errs, fmt.Errorf("%s of %s cannot be created in %s: %s", zktree.Znodes(n), m.src.word, m.dst.word, m.missing.Error()))
	}
	return done, errors.Join(errs...)
}

// apply resolves the given differences by changing the destination. It calls endProgress before it
// asks the user whether to delete znodes.
func (m *mirror) apply(
	ctx context.Context, all zktree.Differences, rec zktree.Recorder, progress zktree.Progress, endProgress func(),
) (zktree.Counts, error) {
	edits := zktree.DeletionsLast(m.count(zktree.Plan(all)), func(deletions []*zktree.Edit) (bool, error) {
		endProgress()
		return m.confirmDeletions(ctx, deletions)
	})
	return zktree.Apply(ctx, m.dst.session.Client, edits, m.dst.target(rec), zktree.LeaveAlone, progress)
}

// confirmDeletions asks the user whether to delete the znodes that only the destination contains.
func (m *mirror) confirmDeletions(ctx context.Context, deletions []*zktree.Edit) (bool, error) {
	if m.sure {
		return true, nil
	}
	yes, err := m.env.Screen.Ask(ctx, fmt.Sprintf("delete %s from %s that %s does not contain, for example %s? [y/N] ",
		zktree.Znodes(len(deletions)), m.dst.word, m.src.word, deletions[len(deletions)-1].Path))
	if err == nil && !yes {
		m.env.Screen.Note("nothing was deleted")
	}
	return yes, err
}
