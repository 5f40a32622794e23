// Package undo records what commands change, and provides the command undo, which lists the recorded
// operations and reverts them.
//
// A Recorder implements commands.Recorder. For each edit, it writes the old state of the znode to a
// dump, before the edit is sent: either in the user's undo log (Log) or, for --undo, in a file that
// import can read (ToFile). The log also lists the edits and what became of them. Undo compares the
// znodes with what the operation left, and restores those that are still so. Begin reading at
// recording.Before and at Command.
//
// This package and commands/transfer do not import each other: commands record changes through the
// interface commands.Recorder, and both packages read and write subtrees with internal/zktree.
//
// This package is part of the program zksh and may change at any time.
package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// undoName is the name of the command undo. The log records each undo as an operation. Undo without a
// number skips these operations, so that repeated undos reach further into the past.
const undoName = "undo"

// Command returns the command undo, which uses the given undo log.
func Command(log Log) *commands.Command {
	return &commands.Command{
		Name: undoName, Group: "Trees", Effect: commands.Writes | commands.Destroys | commands.Asks | commands.OneStream,
		Except:  commands.ByFlag(map[string]commands.Effect{"list": commands.Writes, commands.DryRun: commands.Writes}),
		Args:    "[-l] [-n] [-s] [--overwrite] [number]",
		Summary: "undo the last line that changed znodes",
		Help: "Without a number, undo reverts the last line of this shell that changed znodes: it deletes the znodes that the " +
			"line created, creates those that it deleted, and restores the data and ACLs that it overwrote. A line is one " +
			"operation, even if it ran many commands, as find … -- delete {} does. If the last operation is undone already, or is " +
			"itself an undo, undo says so, and asks before it undoes an earlier one.\n\n" +
			"With a number, undo reverts that operation, no matter who performed it; undo -l lists the numbers. An undo can " +
			"itself be undone, by its number.\n\n" +
			"At the prompt, create, set, edit, delete, deleteall, rmr, cp, mv, setAcl, import, mirror, commit and undo record " +
			"what they change before they change it. If an old state cannot be saved (because it is too large, the disk " +
			"is full, or you are not permitted to read it), zksh asks before it continues.\n\n" +
			"A single command that you type in another shell is also recorded, provided that its standard error is " +
			"a terminal. When it ends, it prints what it has saved; to restore this, run zksh undo in the same terminal. A " +
			"single command never asks: if it cannot save something, it prints a message and proceeds anyway. Scripts record " +
			"nothing, unless you add --undo FILE.\n\n" +
			"If a znode has changed since the operation, undo prints the difference and does nothing. Data and ACL count " +
			"separately. With --overwrite, undo saves these later changes, too, and then restores the old state. With -s, undo " +
			"leaves changed znodes as they are and reverts the rest. If zksh was killed during an operation, or lost the " +
			"connection, undo reverts everything that has not changed since, and lists the rest.",
		Limits: []string{
			"The undo log keeps the last 50 operations, at most 64 MiB each and 256 MiB together.",
			"Quotas, the configuration of the ensemble, and the znodes of locks are not recorded. After setquota, delquota and " +
				"reconfig, undo at the prompt asks before it undoes an earlier change.",
			"Ephemeral znodes and the znodes of lock queues are not restored.",
			"Containers and znodes with a time to live are restored as persistent znodes.",
			"Sequence counters, zxids, versions and times are not restored. They start again.",
			"If another client changes the ACL of a znode, or deletes the znode and creates it again, within one round trip before " +
				"a line overwrites or deletes it, that change is lost.",
		},
		Examples: []string{"undo", "undo -l", "undo -n 3"},
		Params:   []commands.Param{{Name: "number", Kind: commands.Data, Optional: true}},
		Flags: func(fs *pflag.FlagSet) commands.Run {
			list := fs.BoolP("list", "l", false, "list the operations, the latest first")
			dry := fs.BoolP(commands.DryRun, "n", false, "change nothing; print what would be done")
			skip := fs.BoolP("skip", "s", false, "skip znodes that have changed since, and restore the rest")
			overwrite := fs.Bool("overwrite", false, "restore the saved state even over later changes")
			return func(ctx context.Context, env *commands.Env, args []string) error {
				if log.NoDir != nil {
					return fmt.Errorf("nothing is saved for undo: %w", log.NoDir)
				}
				if *list {
					if len(args) > 0 || *dry || *skip || *overwrite {
						return commands.Misuse("-l cannot be combined with other flags or a number")
					}
					return log.print(env)
				}
				e, err := log.pick(ctx, env, args, *dry)
				if err == nil {
					err = e.confirm(ctx, env)
				}
				if err != nil {
					return err
				}
				u := &undoing{
					entry: e, log: log, s: &store{log.Dir}, env: env, dry: *dry, skip: *skip, overwrite: *overwrite,
				}
				return u.undo(ctx)
			}
		},
	}
}

// location returns the name of the cluster on which the operation was done, or else its connect
// string.
func (e *entry) location() string { return cmp.Or(e.Cluster, strings.Join(e.Servers, ",")+e.Chroot) }

// confirm asks the user before an undo, if writes to the cluster require confirmation. It asks nothing
// if the undo would fail anyway.
func (e *entry) confirm(ctx context.Context, env *commands.Env) error {
	if env.Confirm == "" || e.State == undone || e.checkServers(env) != nil {
		return nil
	}
	return env.AskToContinue(ctx, fmt.Sprintf("about to undo operation %d (%s) on %s", e.N, e.words(), env.Confirm))
}

// checkServers returns an error if the operation was done on another ensemble or below another
// chroot than those of the session. Two connect strings with a server in common are assumed to name
// the same ensemble.
func (e *entry) checkServers(env *commands.Env) error {
	here := env.Session.Servers()
	if zkconn.Overlap(e.Servers, here.Hosts) && here.Chroot == e.Chroot {
		return nil
	}
	return fmt.Errorf("operation %d was done on %s, but this shell is connected to %s; run connect %s, then undo %d", e.N, e.location(), here.Spec, e.location(), e.N)
}

// undoing is one run of the command undo for one operation.
type undoing struct {
	*entry
	log       Log
	s         *store
	env       *commands.Env
	dry       bool
	skip      bool
	overwrite bool

	changes     []*change
	conflicts   []conflict
	plan        []string            // descriptions of the planned changes, one per line
	differences []zktree.Difference // between the present and the old states, to be removed
	created     []*dump.Znode       // znodes that the operation created, in the order of their paths
	deletions   []*zktree.Edit      // deletions of such znodes, children before their parents
	gone        string              // latest missing znode that cannot be restored, because it was not saved
	unsaved     int                 // changed znodes whose old state was not saved
	counts      zktree.Counts
}

// conflict describes a znode that undo does not restore, because the znode has changed since the
// operation.
type conflict struct {
	path  string
	what  string
	diff  string // difference between current and saved data, or empty if they are not text
	final bool   // whether undo cannot restore the znode, even with --overwrite
	maybe bool   // whether it is unknown whether the operation has changed the znode
	gone  bool   // whether the operation has deleted the znode
}

// undo reverts the operation, marks it as undone in the log, and prints the result.
func (u *undoing) undo(ctx context.Context) error {
	if err := u.run(ctx); err != nil {
		return err
	}
	if err := u.markUndone(); err != nil {
		return err
	}
	return u.env.Screen.Print(u.answer())
}

func (u *undoing) run(ctx context.Context) error {
	if err := u.checkServers(u.env); err != nil {
		return err
	}
	if u.State == undone {
		return fmt.Errorf("operation %d has already been undone", u.N)
	}
	if err := u.checkZxid(ctx); err != nil {
		return err
	}
	if u.restorable() == 0 {
		what := cmp.Or(u.notRestored(), "their old states were not saved")
		return fmt.Errorf("operation %d (%s) deleted only znodes that cannot be restored: %s", u.N, u.words(), what)
	}
	if err := u.compare(ctx); err != nil {
		return err
	}
	if err := u.rejectConflicts(); err != nil || u.dry || len(u.plan) == 0 {
		return err
	}
	return u.apply(ctx)
}

// checkZxid returns an error if the ensemble's last zxid is older than the saved copy. In this
// case, the ensemble has been restored from a backup, or it is a different ensemble with the same
// server names.
func (u *undoing) checkZxid(ctx context.Context) error {
	if err := zkconn.Exec(ctx, u.env.Session.Absolute(), zkconn.Sync("/")); err != nil {
		return err
	}
	zxid, err := zkconn.Do(ctx, u.env.Session, zkconn.Zxid())
	if err != nil || zxid >= u.Seen {
		return err
	}
	return fmt.Errorf("cannot undo operation %d: it was done on another ensemble, or this ensemble was restored from a backup; the last zxid of this ensemble (%#x) is older than the saved zxid (%#x); to restore the saved znodes anyway, use import -R with the file %s",
		u.N, zxid, u.Seen, u.s.file(u.N, dumpFile))
}

// restorable returns the number of znodes that undo can restore or delete.
func (e *entry) restorable() int { return e.Znodes + e.Created - e.Ephemeral }

// notRestored returns a description of the znodes that undo does not restore, or an empty string if
// there are none.
func (e *entry) notRestored() string {
	var parts []string
	if e.Ephemeral > 0 {
		parts = append(parts, zktree.Ephemerals(e.Ephemeral))
	}
	if e.Queued > 0 {
		parts = append(parts, zktree.Znodes(e.Queued)+" of lock queues (and their descendants)")
	}
	return strings.Join(parts, ", ")
}

// markUndone marks the operation as undone in the log. It also prints which znodes were not
// restored.
func (u *undoing) markUndone() error {
	if !u.dry {
		if len(u.conflicts) == 0 {
			u.State = undone
		}
		u.Partly = len(u.conflicts) > 0
		if err := u.s.update(u.entry); err != nil {
			return fmt.Errorf("operation %d was undone, but zksh cannot update the undo log: %w", u.N, err)
		}
	}
	if lost := u.notRestored(); lost != "" {
		u.env.Screen.Note("not restored: " + lost)
	}
	if u.unsaved > 0 {
		u.env.Screen.Note(fmt.Sprintf("not restored, because the old state was not saved: %s", zktree.Znodes(u.unsaved)))
	}
	if n := len(u.conflicts); n > 0 {
		u.env.Screen.Note(fmt.Sprintf("not restored, because of later changes: %s", zktree.Znodes(n)))
	}
	return nil
}

// answer returns the result of the undo. With the flag -n, the result contains the plan of the
// undo.
func (u *undoing) answer() render.Answer {
	facts := render.Facts{"number", u.N, "command", u.Command, "path", u.Path, "conflicts", len(u.conflicts)}
	if u.dry {
		words := fmt.Sprintf("would undo operation %d (%s):\n%s", u.N, u.words(), strings.Join(append(u.plan, ""), "\n"))
		return render.Answer{Words: words, Wrap: true, JSON: append(facts, "plan", append([]string{}, u.plan...))}
	}
	did := countsText(u.counts)
	words := fmt.Sprintf("undid operation %d (%s): %s\n", u.N, u.words(), cmp.Or(did, "already in the saved state"))
	if did == "" && len(u.conflicts) > 0 {
		words = fmt.Sprintf("nothing was left to undo of operation %d (%s)\n", u.N, u.words())
	}
	facts = append(facts, "created", u.counts.Created, "changed", u.counts.Changed, "deleted", u.counts.Deleted)
	return render.Answer{Words: words, Wrap: true, JSON: append(render.Facts{"done", undoName}, facts...)}
}

// countsText returns the numbers of restored znodes as text, or an empty string if no znode was
// restored.
func countsText(c zktree.Counts) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Created, "created"}, {c.Changed, "changed"}, {c.Deleted, "deleted"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// rejectConflicts prints the conflicts and returns an error if there are any. With the flag -s,
// undo skips conflicts, so rejectConflicts returns nil. With --overwrite, the only conflicts are
// those that cannot be overwritten. If it is unknown whether the operation has changed these znodes,
// undo prints the conflicts and reverts the rest.
func (u *undoing) rejectConflicts() error {
	if len(u.conflicts) == 0 || u.skip {
		return nil
	}
	if len(u.plan) > 0 && !slices.ContainsFunc(u.conflicts, func(c conflict) bool { return !c.maybe }) {
		for _, c := range u.conflicts[:min(len(u.conflicts), maxShown)] {
			u.env.Screen.Note(c.what)
		}
		return nil
	}
	var words strings.Builder
	paths, final := []string{}, 0
	for i, c := range u.conflicts {
		paths = append(paths, c.path)
		if c.final {
			final++
		}
		if i < maxShown {
			fmt.Fprintf(&words, "%s\n%s", c.what, c.diff)
		}
	}
	if more := len(u.conflicts) - maxShown; more > 0 {
		fmt.Fprintf(&words, "and %d more\n", more)
	}
	if err := u.env.Screen.Print(render.Answer{Words: words.String(), JSON: render.Facts{"number", u.N, "changedSince", paths}}); err != nil {
		return err
	}
	return u.conflictError(len(u.conflicts), final)
}

// conflictError returns the error for an undo that changed nothing because of conflicts. changed is
// the number of znodes that have changed since the operation. final is the number of those that
// cannot be restored even with --overwrite.
func (u *undoing) conflictError(changed, final int) error {
	all := max(len(u.changes)-u.Ephemeral-u.unsaved, changed)
	have := "have"
	if changed == 1 {
		have = "has"
	}
	text := fmt.Sprintf("nothing was done: %d of %s %s changed since operation %d", changed, zktree.Znodes(all), have, u.N)
	skip := fmt.Sprintf("undo -s %d", u.N)
	if final < changed && !u.overwrite {
		text += fmt.Sprintf("; to overwrite the changes, run: undo --overwrite %d", u.N)
	}
	if final > 0 && final < changed || u.overwrite {
		text += fmt.Sprintf("; %d cannot be overwritten", final)
		skip = fmt.Sprintf("undo --overwrite -s %d", u.N)
	}
	if all > changed {
		text += "; to restore only the rest, run: " + skip
	} else {
		text += "; to skip this operation, run: " + skip
	}
	return errors.New(text)
}

// maxShown is the maximum number of conflicts that undo prints in full.
const maxShown = 20
