package commands

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var deleteallCommand = &Command{
	Name: "deleteall", Group: "Trees", Effect: Writes | Destroys | Sweeps | Asks | OneStream,
	Except:  ByFlag(map[string]Effect{"yes": Asks, DryRun: Writes}),
	Args:    "path [-b batch size] [-y] [-n]",
	Summary: "delete a znode and everything below it",
	Help: "At the prompt, deleteall counts the znodes and asks for confirmation. It then deletes the subtree in batches, " +
		"children before their parents. If you press Ctrl-C, deleteall stops after the current batch and prints how many " +
		"znodes it deleted.\n\n" +
		"With -n, deleteall deletes nothing and lists the znodes that it would delete.\n\n" +
		"At the prompt, deleteall saves the subtree so that undo can restore it. Scripts, and commands without a terminal, " +
		"save nothing (see help undo).",
	Limits:   []string{"/ and /zookeeper cannot be deleted."},
	Examples: []string{"deleteall /app/old", "deleteall -n /app/old"},
	Params:   []Param{pathParam},
	Look:     lookWith("exists"),
	Flags: func(fs *pflag.FlagSet) Run {
		batch := numberFlag(fs, 32, "batch", "b", zktree.DefaultBatch, "delete this many znodes in one transaction; a number below 1 deletes them one by one")
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		dry := fs.BoolP(DryRun, "n", false, "delete nothing; list the znodes that would be deleted")
		return func(ctx context.Context, env *Env, args []string) error {
			if *dry {
				return listDeletions(ctx, env, "deleteall", args[0])
			}
			return deleteTree(ctx, env, "deleteall", args[0], int(*batch), *sure)
		}
	},
}

var rmrCommand = &Command{
	Name: "rmr", Group: "Trees", Effect: Writes | Destroys | Sweeps | Asks,
	Except:   ByFlag(map[string]Effect{"yes": Asks}),
	Args:     "path [-y]",
	Summary:  "delete a subtree (old name of deleteall)",
	Help:     "rmr is the ZooKeeper 3.4 name for deleteall.",
	Examples: []string{"rmr /app/old", "rmr /app/old -y"},
	Params:   []Param{pathParam},
	Look:     lookWith("exists"),
	Flags: func(fs *pflag.FlagSet) Run {
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		return func(ctx context.Context, env *Env, args []string) error {
			env.Screen.Note("The command 'rmr' has been deprecated. Please use 'deleteall' instead.")
			return deleteTree(ctx, env, "rmr", args[0], zktree.DefaultBatch, *sure)
		}
	},
}

// checkDeletable returns an error if path is invalid or if zksh never deletes the subtree at path.
func checkDeletable(env *Env, name, path string) error {
	if err := zkconn.ValidatePath(path, false); err != nil {
		return err
	}
	if server := env.Session.ServerPath(path); path == "/" || server == "/zookeeper" {
		return fmt.Errorf("%s never deletes %s; specify a znode below it", name, path)
	}
	return nil
}

// listDeletions prints the paths of the znodes that deleteTree would delete.
func listDeletions(ctx context.Context, env *Env, name, path string) error {
	if err := checkDeletable(env, name, path); err != nil {
		return err
	}
	s, err := surveyOf(ctx, env, path, zktree.Options{Stat: true})
	if err != nil {
		return err
	}
	found, eph := 0, 0
	err = s.print(pathStream(path, s.items("listed", func(z *dump.Znode, _ error, yield func(render.Item) bool) bool {
		found++
		if z.Kind == dump.Ephemeral {
			eph++
		}
		return yield(pathItem{path: z.Path})
	})))
	if err != nil { // the list is incomplete, so its length says nothing
		return err
	}
	env.Screen.Note(fmt.Sprintf("%s would be deleted (%d ephemeral); nothing was deleted", zktree.Znodes(found), eph))
	return nil
}

func deleteTree(ctx context.Context, env *Env, name, path string, batch int, sure bool) error {
	if err := checkDeletable(env, name, path); err != nil {
		return err
	}
	if !sure && env.Mode == ByHand {
		yes, err := confirmDelete(ctx, env, path)
		if err != nil {
			return err
		}
		if !yes {
			env.Screen.Note("nothing was deleted")
			return nil
		}
	}
	n := 0
	err := env.Record(ctx, name, path, func(ctx context.Context, rec zktree.Recorder) (err error) {
		update, end := env.Screen.Progress("deleted")
		defer end()
		n, err = zktree.Delete(ctx, env.Session.Client, path, batch, rec, update)
		return err
	})
	return env.answer(err, done(name, path, "deleted", n))
}

// confirmDelete asks the user whether to delete the subtree at path. The question states the number
// of znodes below path. For at most maxExamined znodes, it also states how many are ephemeral.
func confirmDelete(ctx context.Context, env *Env, path string) (bool, error) {
	n, err := countBelow(ctx, env, path)
	if err != nil {
		return false, err
	}
	eph := "too many to count the ephemeral ones"
	if n <= maxExamined {
		update, end := env.Screen.Progress("examined")
		found, hidden, err := zktree.CountEphemerals(ctx, env.Session.Client, path, update)
		end()
		if err != nil {
			return false, err
		}
		switch {
		case found > 0:
			eph = fmt.Sprintf("%d ephemeral", found)
		case n == 0:
			eph = "not ephemeral"
		default:
			eph = "none ephemeral"
		}
		if hidden > 0 {
			eph += fmt.Sprintf(", %d unreadable", hidden)
		}
	}
	return env.Screen.Ask(ctx, deleteQuestion(path, n, eph, env.Confirm))
}

// deleteQuestion returns the text that asks the user whether to delete a znode with the given
// number of descendants. ephemeral describes how many of the znodes are ephemeral. cluster is the
// name of the cluster, or empty to omit it from the question.
func deleteQuestion(path string, descendants int, ephemeral, cluster string) string {
	text := "delete " + path
	switch descendants {
	case 0:
		text += ", which has no children"
	case 1:
		text += " and the znode below it"
	default:
		text += fmt.Sprintf(" and the %d znodes below it", descendants)
	}
	text += " (" + ephemeral + ")"
	if cluster != "" {
		text += " on " + cluster
	}
	return text + "? [y/N] "
}

// maxExamined is the largest number of znodes among which confirmDelete counts the ephemeral ones.
const maxExamined = 10_000
