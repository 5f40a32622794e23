package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var importCommand = &commands.Command{
	Name: "import", Group: "Trees", Effect: commands.Writes | commands.Destroys | commands.OneStream,
	Except:  commands.ByFlag(map[string]commands.Effect{commands.DryRun: commands.Writes}),
	Args:    "[-R] [-n] [--skip] [--overwrite] [--prune] [--only path] [-e] [-y] path file",
	Summary: "write a file to a znode, or restore a subtree from a file",
	Help: "Without -R, import writes the contents of the file to the znode, and creates the znode if necessary. The two " +
		"arguments can be in either order if the name of the file does not begin with /.\n\n" +
		"import -R file [path] restores the subtree in the file, at its original path or at the given path. The file is " +
		"an export of zksh or a ZooKeeper snapshot. import rejects a damaged or truncated file before it writes " +
		"anything. --only selects a subtree of the file. With -n, import only prints what it would do.\n\n" +
		"If one of the znodes already exists, import does nothing, unless you add a flag: --skip leaves existing znodes as " +
		"they are and adds the rest, so it can also complete an interrupted import. --overwrite replaces data and ACLs " +
		"with those in the file. --prune does the same, and also deletes znodes that are not in the file.",
	Limits: []string{
		"Ephemeral znodes, both in the file and on the server, are left out. With -e, import creates persistent copies of those in the file.",
		"Zxids, times, versions and sequence counters are not restored. They start again.",
		"/zookeeper stays as it is.",
	},
	Examples: []string{"import -R app.json.gz", "import /app/config config.json", "import -R -n --only /app snapshot.a3f"},
	Params: []commands.Param{
		{Name: "path", Kind: commands.File}, {Name: "file", Kind: commands.File, Optional: true}, // the path and the file can be in either order
	},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		recurse := fs.BoolP("recursive", "R", false, "restore a subtree")
		dry := fs.BoolP(commands.DryRun, "n", false, "change nothing; print what would be done")
		skip := fs.Bool("skip", false, "leave existing znodes as they are")
		overwrite := fs.Bool("overwrite", false, "overwrite data and ACLs of existing znodes")
		prune := fs.Bool("prune", false, "like --overwrite, and also delete znodes that are not in the file")
		only := fs.String("only", "", "restore only the subtree at this `path` in the file")
		ephemeral := fs.BoolP("ephemeral", "e", false, "create persistent copies of ephemeral znodes")
		sure := fs.BoolP("yes", "y", false, "do not ask for confirmation")
		return func(ctx context.Context, env *commands.Env, args []string) error {
			if !*recurse {
				for _, name := range []string{commands.DryRun, "skip", "overwrite", "prune", "only", "ephemeral"} {
					if fs.Changed(name) {
						return commands.Misuse("--%s needs -R", name)
					}
				}
				return importOne(ctx, env, args)
			}
			if *skip && *overwrite || *skip && *prune || *overwrite && *prune {
				return commands.Misuse("use only one of --skip, --overwrite and --prune")
			}
			im := &importer{env: env, only: *only, ephemeral: *ephemeral, dry: *dry, sure: *sure, file: args[0],
				onExisting: policy(*skip, *overwrite || *prune), prune: *prune}
			if len(args) > 1 {
				if im.to = args[1]; !strings.HasPrefix(im.to, "/") {
					im.file, im.to = im.to, im.file
				}
				if err := zkconn.ValidatePath(im.to, false); err != nil {
					return err
				}
			}
			return im.run(ctx)
		}
	},
}

// importOne writes the contents of a file to one znode, as the data of that znode.
func importOne(ctx context.Context, env *commands.Env, args []string) error {
	if len(args) < 2 {
		return commands.Misuse("missing file; to restore a subtree, run: import -R FILE")
	}
	at, file := args[0], args[1]
	if !strings.HasPrefix(at, "/") {
		at, file = file, at
	}
	data, err := commands.LoadFile(ctx, env, file)
	if err != nil {
		return err
	}
	_, err = env.Overwrite(ctx, "import", at, data, -1)
	made := errors.Is(err, zkconn.NoNode)
	if made {
		err = env.Create(ctx, "import", at, data)
	}
	if err != nil {
		return err
	}
	return env.Screen.Print(render.Answer{JSON: render.Facts{"done", "import", "path", at, "file", file, "bytes", len(data), "created", made}})
}

// importer is one run of import -R.
type importer struct {
	env        *commands.Env
	file       string
	only       string // root of the subtree in the file to import, or empty for the whole file
	to         string // path of the target on the server; if empty, the same as only
	onExisting zktree.Policy
	prune      bool
	ephemeral  bool
	dry, sure  bool

	tree        *dump.Tree
	targetIsNew bool // whether the target does not exist yet

	tally
	seen       int // znodes in the file that are to be imported
	ephemerals int // ephemeral znodes in the file that are skipped
	copies     int // persistent copies of ephemeral znodes
}

func (im *importer) run(ctx context.Context) (err error) {
	if im.tree, err = openDump(ctx, im.env, im.file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.tree.Close()) }()
	if im.only == "" {
		im.only = im.tree.Root()
	}
	if !im.tree.Has(im.only) {
		return fmt.Errorf("the file %s does not contain %s; it contains only %s and its descendants", im.file, im.only, im.tree.Root())
	}
	if im.to == "" {
		im.to = im.only
	}
	if err := im.tree.Trailer.Lacks(); err != nil && im.prune {
		return fmt.Errorf("nothing was done: %s: %w; --prune could delete znodes on the servers that are missing only from the file; use --overwrite, which deletes nothing", im.file, err)
	}
	if err := im.checkTarget(ctx); err != nil {
		return err
	}
	switch {
	case im.dry:
		return im.printPlan(ctx)
	case !im.targetIsNew && im.onExisting == zktree.Overwrite:
		if yes, err := im.confirm(ctx); err != nil || !yes {
			return err
		}
	}
	return im.env.Record(ctx, "import", im.to, im.write)
}

// openDump opens the dump in the file with the given name, or in standard input if name is "-".
func openDump(ctx context.Context, env *commands.Env, name string) (*dump.Tree, error) {
	if name != "-" {
		return dump.Open(ctx, name)
	}
	if env.Stdin == nil {
		return nil, commands.Misuse("cannot read the file from standard input (-), because zksh reads its commands from there; specify a file")
	}
	return dump.Read(ctx, env.Stdin)
}

// checkTarget determines whether the target exists. It returns an error if the target exists but no
// flag allows import to change it.
func (im *importer) checkTarget(ctx context.Context) (err error) {
	here := &endpoint{Place: commands.Place{Path: im.to}, word: im.to, session: im.env.Session}
	if im.targetIsNew, err = isFree(ctx, here); err == nil && !im.targetIsNew && im.onExisting == zktree.Refuse {
		err = existsError(im.to, "; nothing was done; use --skip to add only missing znodes, --overwrite to change existing ones as well, or --prune to also delete znodes that are not in the file")
	}
	return err
}

// confirm asks the user for confirmation if the import would change or delete more than a few
// znodes.
func (im *importer) confirm(ctx context.Context) (bool, error) {
	if im.sure || im.env.Mode != commands.ByHand {
		return true, nil
	}
	if err := im.countEdits(ctx); err != nil {
		return false, err
	}
	changed, removed := im.changed, im.deeds[zktree.Deletes]
	if changed+removed <= fewChanges {
		return true, nil
	}
	yes, err := im.env.Screen.Ask(ctx, fmt.Sprintf("change %s and delete %d at and below %s? [y/N] ", zktree.Znodes(changed), removed, im.to))
	if err == nil && !yes {
		im.env.Screen.Note("nothing was changed")
	}
	return yes, err
}

// fewChanges is the largest number of changes and deletions that import makes without asking for
// confirmation.
const fewChanges = 10

// countEdits counts the changes that the import would make, without making them.
func (im *importer) countEdits(ctx context.Context) error {
	update, end := im.env.Screen.Progress("compared")
	defer end()
	for _, err := range im.edits(ctx, update) {
		if err != nil {
			return err
		}
	}
	return nil
}

// write carries out the import. It deletes znodes only after all other changes.
func (im *importer) write(ctx context.Context, rec zktree.Recorder) error {
	update, end := im.env.Screen.Progress("imported")
	c, target := im.env.Session.Client, zktree.Target{Path: im.to, Name: im.to, Recorder: rec}
	edits := zktree.DeletionsLast(im.edits(ctx, nil), func([]*zktree.Edit) (bool, error) { return true, nil })
	done, err := zktree.Apply(ctx, c, edits, target, im.onExisting, update)
	end()
	if err != nil {
		if im.onExisting != zktree.Overwrite && isPartial(err) {
			err = fmt.Errorf("%w; to import the rest, run: import -R --skip", err)
		}
		return err
	}
	im.env.Screen.Note(im.summary("created", done))
	facts := render.Facts{"done", "import", "path", im.to, "file", im.file, "created", done.Created, "changed", done.Changed,
		"deleted", done.Deleted, "unchanged", im.unchanged(done), "left_out", im.ephemerals}
	return errors.Join(im.env.Screen.Print(render.Answer{JSON: facts}), im.endError())
}

// endError returns an error if the import is incomplete: a znode on the server could not be read,
// or a znode of the file could not be created.
func (im *importer) endError() error {
	errs := []error{im.unread.OrNil()}
	if n := im.missing.N; n > 0 {
		errs = append(errs, fmt.Errorf("cannot create %s from the file: %s", zktree.Znodes(n), im.missing.Error()))
	}
	return errors.Join(errs...)
}

// isPartial reports whether err stopped an import that has created some znodes, or may have.
func isPartial(err error) bool {
	w, ok := errors.AsType[*zktree.PartialError](err)
	return ok && w.Cause != nil && w.Done.Created+w.Outcome.Unknown > 0
}

// unchanged returns the number of znodes in the file that already existed and that the import did
// not change. done counts the changes of the import.
func (im *importer) unchanged(done zktree.Counts) int {
	return max(0, im.seen-done.Created-done.Changed-im.missing.N)
}

// summary describes the changes of the import, which done counts, and the znodes that could not be
// restored. verb precedes the number of new znodes, as in "created 3 znodes".
func (im *importer) summary(verb string, done zktree.Counts) string {
	text := fmt.Sprintf("%s %s at and below %s", verb, zktree.Znodes(done.Created), im.to)
	more := func(n int, format string) {
		if n > 0 {
			text += fmt.Sprintf("; "+format, n)
		}
	}
	more(done.Changed, "%d changed")
	more(done.Deleted, "%d deleted")
	more(im.unchanged(done), "%d unchanged")
	if n := im.ephemerals; n > 0 {
		text += "; left out " + zktree.Ephemerals(n)
	}
	more(im.copies, "%d created as persistent copies of ephemeral znodes")
	more(im.open, "%d open to everyone, because the file does not contain their ACLs")
	more(im.leftAlone(), "%d different ones left as they are")
	if err := im.tree.Trailer.Lacks(); err != nil {
		text += "; " + err.Error()
	}
	return text + "; zxids, times, versions and sequence counters start over"
}
