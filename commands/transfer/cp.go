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

// The words of a command with two sides.
var (
	srcParam = commands.Param{Name: "src", Kind: commands.Side}
	dstParam = commands.Param{Name: "dst", Kind: commands.Side}
)

// sideHelp explains how to name a source or destination.
const sideHelp = "Write a path in another ensemble as @cluster:/path or host:port[,host:port…]:/path. zksh opens a separate session for " +
	"it. For a cluster, this session uses the TLS options, the credentials and the writes setting (allow, ask or never; see " +
	"help configuration) of that cluster. For host:port, it uses no credentials (see help trees)."

var cpCommand = &commands.Command{
	Name: "cp", Group: "Trees", Effect: commands.Writes | commands.Destroys,
	Except:  writesTo,
	Args:    "[-R] [-e] [--skip | --overwrite] src dst",
	Summary: "copy a znode or subtree, within or between ensembles",
	Help: "cp copies the data and ACL of SRC exactly; with -R, it copies the entire subtree. The parent of DST must exist. " +
		"DST must not exist, unless you use --skip or --overwrite to choose what happens to existing znodes.\n\n" +
		sideHelp +
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
			c := &copying{env: env, all: *all, ephemerals: *ephemerals, exists: policy(*skip, *overwrite)}
			if err := live("cp", args...); err != nil {
				return err
			}
			return within(ctx, env, args, func(list []*side) error { return c.cp(ctx, list[0], list[1]) })
		}
	},
}

// copying is a copy from one side to another.
type copying struct {
	env        *commands.Env
	src, dst   *side
	all        bool // with what is below
	ephemerals bool // as persistent ones
	exists     zktree.Policy

	left, kept int  // ephemeral znodes that were not copied, and that became persistent
	below      int  // znodes below one that was copied alone
	numbered   bool // a znode has a number of a sequence
	unread     zktree.UnreadError
	shut       string // the last of those; what is below it is left out
	done       zktree.Counts
}

func (c *copying) cp(ctx context.Context, src, dst *side) error {
	if err := c.begin(ctx, "cp", src, dst); err != nil {
		return err
	}
	write := c.copy
	if c.exists == zktree.Overwrite {
		write = func(ctx context.Context) error { return losing(ctx, c.env, "cp", dst, c.copy) }
	}
	err := write(ctx)
	if err == nil || c.done.Total() > 0 {
		c.remark()
	}
	if c.exists != zktree.Overwrite && brokenOff(err) {
		err = fmt.Errorf("%w; to copy the rest, run: cp -R --skip", err)
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("Copied %s to %s", zktree.Znodes(c.done.Created), dst.word)
	facts := []any{"done", "cp", "src", src.word, "dst", dst.word, "created", c.done.Created}
	if c.exists != zktree.Refuse {
		what += fmt.Sprintf(", %d changed, %d unchanged", c.done.Changed, c.done.Skipped)
		facts = append(facts, "changed", c.done.Changed, "unchanged", c.done.Skipped)
	}
	return answer(c.env, what, append(facts, "left_out", c.left, "made_persistent", c.kept)...)
}

// policy is that of a command with flags to skip and to overwrite what exists.
func policy(skip, overwrite bool) zktree.Policy {
	switch {
	case skip:
		return zktree.Skip
	case overwrite:
		return zktree.Overwrite
	}
	return zktree.Refuse
}

// begin looks whether the copy may be.
func (c *copying) begin(ctx context.Context, command string, src, dst *side) error {
	c.src, c.dst = src, dst
	c.unread.Root = src.word
	if err := cmp.Or(notOwn(src), notOwn(dst)); err != nil {
		return err
	}
	if err := mayWrite(ctx, c.env, command, dst); err != nil {
		return err
	}
	if err := apart(ctx, command, src, dst); err != nil {
		return err
	}
	out := "; choose another destination"
	if command == "cp" {
		out += ", or add --skip or --overwrite"
	}
	free, err := free(ctx, dst)
	if err == nil && !free && c.exists == zktree.Refuse {
		err = occupied(dst.word, out)
	}
	return err
}

// free reports whether there is nothing at a side yet. What nothing is above cannot be made.
func free(ctx context.Context, s *side) (bool, error) {
	err := zkconn.Exec(ctx, s.session, zkconn.Exists(s.Path))
	if !errors.Is(err, zkconn.NoNode) {
		return false, s.wrap(unlessHidden(err))
	}
	err = zkconn.Exec(ctx, s.session, zkconn.Exists(path.Dir(s.Path)))
	if err = unlessHidden(err); err != nil {
		return true, fmt.Errorf("cannot create %s: %w", s.word, s.wrap(err))
	}
	return true, nil
}

// unlessHidden leaves of an error what does not say that there is a znode, which may not be
// read.
func unlessHidden(err error) error {
	if errors.Is(err, zkconn.NoAuth) {
		return nil
	}
	return err
}

// occupied is the error of something that is to be made, and is there; out is the way out.
func occupied(word, out string) error {
	return &commands.StatusError{Status: commands.StatusFailed, Code: "NodeExists", Err: fmt.Errorf("%s already exists%s", word, out)}
}

// tree is what is to be copied.
func (c *copying) tree(ctx context.Context, progress zktree.Progress) (zktree.Tree, error) {
	if !c.all {
		return c.alone(ctx)
	}
	return c.src.nodes(ctx, progress)
}

// alone is the znode without what is below it.
func (c *copying) alone(ctx context.Context) (zktree.Tree, error) {
	z, err := zktree.ReadOne(ctx, c.src.session.Client, c.src.Path, true)
	if err != nil {
		return zktree.Tree{}, c.src.wrap(err)
	}
	c.below, z.Stat.NumChildren = int(z.Stat.NumChildren), 0
	return zktree.Tree{Root: c.src.Path, Nodes: func(yield func(*dump.Znode, error) bool) { yield(z, nil) }}, nil
}

// copy writes what it reads. Its error is of what is missing.
func (c *copying) copy(ctx context.Context) error {
	update, end := c.env.Screen.Progress("copied")
	defer end()
	t, err := c.tree(ctx, nil)
	if err != nil {
		return err
	}
	c.done, err = zktree.Write(ctx, c.dst.session.Client, c.dst.word, c.exists, update, func(w *zktree.Writer) error {
		return c.each(t.Without(c.look), func(z *dump.Znode) error {
			to := zktree.Tree{Root: c.dst.Path}.At(t.Below(z.Path))
			if c.dst.spares(to) {
				return nil
			}
			return w.Do(zktree.Edit{Does: zktree.Creates, Path: to, Znode: z})
		})
	})
	return errors.Join(c.dst.wrap(err), c.src.wrap(c.unread.OrNil()))
}

// each goes over the znodes that are to be there in the end.
func (c *copying) each(t zktree.Tree, do func(*dump.Znode) error) error {
	for z, err := range t.Nodes {
		if z == nil {
			return c.src.wrap(err)
		}
		if err == nil {
			err = do(z)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// look drops what cannot be copied, and counts it.
func (c *copying) look(z *dump.Znode, refusal error) (drop bool, err error) {
	if refusal == nil && slices.ContainsFunc(z.ACL, zkconn.Masked) {
		refusal = fmt.Errorf("cannot copy %s: the server hides the password hash in its ACL; run addauth as a user with admin permission on the znode", z.Path)
	}
	switch {
	case refusal != nil && z.Path == c.src.Path:
		return false, refusal
	case refusal != nil:
		c.unread.Add(refusal)
		c.shut = z.Path
		return true, nil
	case c.shut != "" && dump.Within(z.Path, c.shut):
		return true, nil
	case z.Kind != dump.Ephemeral:
		c.numbered = c.numbered || z.Path != c.src.Path && numbered(z.Path)
		return false, nil
	case c.ephemerals:
		c.kept++
		return false, nil
	}
	c.left++
	return true, nil
}

// remark says what is not as it was.
func (c *copying) remark() {
	if c.left > 0 {
		c.env.Screen.Note(fmt.Sprintf("left out %s; use -e to copy ephemeral znodes as persistent ones", zktree.Ephemerals(c.left)))
	}
	if c.kept > 0 {
		c.env.Screen.Note(fmt.Sprintf("%s from %s became persistent in %s", zktree.Ephemerals(c.kept), c.src.word, c.dst.word))
	}
	c.remarkNumbers()
	if c.below > 0 {
		c.env.Screen.Note(fmt.Sprintf("the children of %s were not copied; to copy them as well, use -R", c.src.word))
	}
}

// remarkNumbers says that sequences do not go on.
func (c *copying) remarkNumbers() {
	if c.numbered {
		c.env.Screen.Note(fmt.Sprintf("sequence counters start over in %s, so create -s may fail there if the next name already exists", c.dst.word))
	}
}

// numbered tells a name with a number that create -s gives.
func numbered(path string) bool {
	const digits = 10
	end := path[max(0, len(path)-digits):]
	return len(end) == digits && strings.Trim(end, "0123456789") == ""
}
