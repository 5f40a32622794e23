package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// Positional arguments that all commands with a source and a destination share.
var (
	srcParam = commands.Param{Name: "src", Kind: commands.PlaceWord}
	dstParam = commands.Param{Name: "dst", Kind: commands.PlaceWord}
)

// endpointHelp is the part of help texts that explains how to name a source or destination.
const endpointHelp = "Write a path in another ensemble as @cluster:/path or host:port[,host:port…]:/path. zksh opens a separate session for " +
	"it. For a cluster, this session uses the TLS options, the credentials and the writes setting (allow, ask or never; see " +
	"help configuration) of that cluster. For host:port, it uses no credentials (see help trees)."

var cpCommand = &commands.Command{
	Name: "cp", Group: "Trees", Effect: commands.Writes | commands.Destroys,
	Except:  writesTo,
	Args:    "[-R] [-e] [--skip | --overwrite] src dst",
	Summary: "copy a znode or subtree, within or between ensembles",
	Help: "cp copies the data and ACL of SRC exactly; with -R, it copies the entire subtree. The parent of DST must exist. " +
		"DST must not exist, unless you use --skip or --overwrite to choose what happens to existing znodes.\n\n" +
		endpointHelp +
		"\n\n" +
		"By default, cp leaves out ephemeral znodes and prints how many it left out; with -e, it creates persistent copies " +
		"of them. It lists unreadable znodes, and leaves them out together with everything below them; the exit status is " +
		"then 1.",
	Limits:   []string{"Versions, times and sequence numbers cannot be copied."},
	Examples: []string{"cp -R /app @staging:/app", "cp /app/config /app/config.old", "cp -R --skip zk1:2181:/app /app"},
	Params:   []commands.Param{srcParam, dstParam},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		all := fs.BoolP("recursive", "R", false, "copy the entire subtree")
		ephemerals := fs.BoolP("ephemeral", "e", false, "create persistent copies of ephemeral znodes")
		skip := fs.Bool("skip", false, "leave existing znodes as they are")
		overwrite := fs.Bool("overwrite", false, "overwrite data and ACLs of existing znodes")
		return func(ctx context.Context, env *commands.Env, args []string) error {
			if *skip && *overwrite {
				return commands.Misuse("use only one of --skip and --overwrite")
			}
			c := &copier{env: env, all: *all, ephemerals: *ephemerals, onExisting: policy(*skip, *overwrite)}
			if err := rejectFiles("cp", args...); err != nil {
				return err
			}
			return withEndpoints(ctx, env, args, func(list []*endpoint) error { return c.cp(ctx, list[0], list[1]) })
		}
	},
}

// copier is one run of the command cp, or the copying part of one run of mv.
type copier struct {
	env        *commands.Env
	src, dst   *endpoint
	all        bool // copy the whole subtree, not only its root
	ephemerals bool // create persistent copies of ephemeral znodes
	onExisting zktree.Policy

	leftOut        int  // number of ephemeral znodes that were left out of the copy
	madePersistent int  // number of persistent copies of ephemeral znodes
	notCopied      int  // number of children that were left out, because -R is not set
	hasSequence    bool // whether the name of a copied znode ends in a sequence number
	unread         zktree.UnreadError
	unreadPath     string // path of the latest unreadable znode; its descendants are skipped
	done           zktree.Counts
}

func (c *copier) cp(ctx context.Context, src, dst *endpoint) error {
	if err := c.check(ctx, "cp", src, dst); err != nil {
		return err
	}
	err := dst.record(ctx, c.env, "cp", c.copy)
	if err == nil || c.done.Total() > 0 {
		c.printRemarks()
	}
	if c.onExisting != zktree.Overwrite && isPartial(err) {
		err = fmt.Errorf("%w; to copy the rest, run: cp -R --skip", err)
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("Copied %s to %s", zktree.Znodes(c.done.Created), dst.word)
	facts := []any{"done", "cp", "src", src.word, "dst", dst.word, "created", c.done.Created}
	if c.onExisting != zktree.Refuse {
		what += fmt.Sprintf(", %d changed, %d unchanged", c.done.Changed, c.done.Skipped)
		facts = append(facts, "changed", c.done.Changed, "unchanged", c.done.Skipped)
	}
	return printAnswer(c.env, what, append(facts, "left_out", c.leftOut, "made_persistent", c.madePersistent)...)
}

// policy returns the policy for znodes that already exist, given the values of the flags --skip and
// --overwrite.
func policy(skip, overwrite bool) zktree.Policy {
	switch {
	case skip:
		return zktree.Skip
	case overwrite:
		return zktree.Overwrite
	}
	return zktree.Refuse
}

// check returns an error if the source cannot be copied to the destination.
func (c *copier) check(ctx context.Context, command string, src, dst *endpoint) error {
	c.src, c.dst = src, dst
	c.unread.Root = src.word
	if err := cmp.Or(checkNotReserved(src), checkNotReserved(dst)); err != nil {
		return err
	}
	if err := checkWrites(ctx, c.env, command, dst); err != nil {
		return err
	}
	if err := checkSeparate(ctx, command, src, dst); err != nil {
		return err
	}
	out := "; choose another destination"
	if command == "cp" {
		out += ", or add --skip or --overwrite"
	}
	free, err := isFree(ctx, dst)
	if err == nil && !free && c.onExisting == zktree.Refuse {
		err = existsError(dst.word, out)
	}
	return err
}

// isFree reports whether no znode exists yet at the endpoint's path. It returns an error if the
// parent of that path does not exist either.
func isFree(ctx context.Context, s *endpoint) (bool, error) {
	err := zkconn.Exec(ctx, s.session, zkconn.Exists(s.Path))
	if !errors.Is(err, zkconn.NoNode) {
		return false, s.wrap(ignoreNoAuth(err))
	}
	err = zkconn.Exec(ctx, s.session, zkconn.Exists(path.Dir(s.Path)))
	if err = ignoreNoAuth(err); err != nil {
		return true, fmt.Errorf("cannot create %s: %w", s.word, s.wrap(err))
	}
	return true, nil
}

// ignoreNoAuth returns nil if err is NoAuth, which means that the znode exists but may not be read.
// It returns other errors unchanged.
func ignoreNoAuth(err error) error {
	if errors.Is(err, zkconn.NoAuth) {
		return nil
	}
	return err
}

// existsError returns the error for a destination that already exists. remedy is appended to the
// message and says what the user can do.
func existsError(word, remedy string) error {
	return &commands.StatusError{Status: commands.StatusFailed, Code: "NodeExists", Err: fmt.Errorf("%s already exists%s", word, remedy)}
}

// tree returns the znodes to copy: the whole subtree, or only its root.
func (c *copier) tree(ctx context.Context) (zktree.Tree, error) {
	if c.all {
		return c.src.subtree(ctx, nil)
	}
	root := zktree.Read(ctx, c.src.session.Client, []string{c.src.Path})
	return zktree.Tree{Root: c.src.Path, Nodes: func(yield func(*dump.Znode, error) bool) {
		for z, err := range root {
			if err == nil {
				c.notCopied, z.Stat.NumChildren = int(z.Stat.NumChildren), 0
			}
			if !yield(z, err) {
				return
			}
		}
	}}, nil
}

// copy copies the znodes from the source to the destination. The error that it returns also lists
// the znodes that could not be read.
func (c *copier) copy(ctx context.Context, rec zktree.Recorder) error {
	update, end := c.env.Screen.Progress("copied")
	defer end()
	t, err := c.tree(ctx)
	if err != nil {
		return err
	}
	c.done, err = zktree.Apply(ctx, c.dst.session.Client, c.creations(t), c.dst.target(rec), c.onExisting, update)
	return errors.Join(c.dst.wrap(err), c.src.wrap(c.unread.OrNil()))
}

// creations returns the edits that create copies of the znodes of t.
func (c *copier) creations(t zktree.Tree) zktree.Edits {
	return func(yield func(*zktree.Edit, error) bool) {
		err := c.each(t, c.filter, func(z *dump.Znode) error {
			to := zktree.Rebase(z.Path, c.src.Path, c.dst.Path)
			if !c.dst.isReserved(to) && !yield(&zktree.Edit{Does: zktree.Creates, Path: to, New: z}, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// errEnough ends a walk, because no more znodes are needed.
var errEnough = errors.New("enough")

// each calls visit for each znode of t for which drop returns false. It stops at the first error of
// reading the tree, of drop or of visit.
func (c *copier) each(
	t zktree.Tree, drop func(z *dump.Znode, refusal error) (bool, error), visit func(*dump.Znode) error,
) error {
	for z, refusal := range t.Nodes {
		if z == nil {
			return c.src.wrap(refusal)
		}
		dropped, err := drop(z, refusal)
		if err != nil {
			return c.src.wrap(err)
		}
		if dropped {
			continue
		}
		if err := visit(z); err != nil {
			return err
		}
	}
	return nil
}

// filter reports whether to leave the znode z out of the copy, and counts the znodes that it leaves
// out. refusal is the reason why z could not be read, or nil if it was read.
func (c *copier) filter(z *dump.Znode, refusal error) (drop bool, err error) {
	if !errors.Is(refusal, zkconn.NoAuth) && slices.ContainsFunc(z.ACL, zkconn.Masked) {
		refusal = fmt.Errorf("cannot copy %s: the server hides the password hash in its ACL; run addauth as a user with admin permission on the znode", z.Path)
	}
	switch {
	case refusal != nil && z.Path == c.src.Path:
		return false, refusal
	case refusal != nil:
		c.unread.Add(refusal)
		c.unreadPath = z.Path
		return true, nil
	case c.unreadPath != "" && dump.Within(z.Path, c.unreadPath):
		return true, nil
	case z.Kind != dump.Ephemeral:
		c.hasSequence = c.hasSequence || z.Path != c.src.Path && hasSequenceNumber(z.Path)
		return false, nil
	case c.ephemerals:
		c.madePersistent++
		return false, nil
	}
	c.leftOut++
	return true, nil
}

// printRemarks prints remarks about the differences between the copy and the source.
func (c *copier) printRemarks() {
	if c.leftOut > 0 {
		c.env.Screen.Note(fmt.Sprintf("left out %s; use -e to copy ephemeral znodes as persistent ones", zktree.Ephemerals(c.leftOut)))
	}
	if c.madePersistent > 0 {
		c.env.Screen.Note(fmt.Sprintf("%s from %s became persistent in %s", zktree.Ephemerals(c.madePersistent), c.src.word, c.dst.word))
	}
	c.printSequenceRemark()
	if c.notCopied > 0 {
		c.env.Screen.Note(fmt.Sprintf("the children of %s were not copied; to copy them as well, use -R", c.src.word))
	}
}

// printSequenceRemark prints the remark that sequence counters are not copied. It prints nothing
// unless a copied znode seems to have a sequence number.
func (c *copier) printSequenceRemark() {
	if c.hasSequence {
		c.env.Screen.Note(fmt.Sprintf("sequence counters start over in %s, so create -s may fail there if the next name already exists", c.dst.word))
	}
}

// hasSequenceNumber reports whether a path ends in ten digits, as the names that create -s
// generates do.
func hasSequenceNumber(path string) bool {
	const digits = 10
	end := path[max(0, len(path)-digits):]
	return len(end) == digits && strings.Trim(end, "0123456789") == ""
}
