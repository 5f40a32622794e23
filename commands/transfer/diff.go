package transfer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var diffCommand = &commands.Command{
	Name: "diff", Group: "Trees", Effect: commands.OneStream, Args: "[-u] a b",
	Summary: "compare two subtrees, each on a server or in a file",
	Help: "diff prints one line for each difference. The line begins with - if the znode is only in A, with + if it is " +
		"only in B, and with ~ if it is in both but differs. A line that begins with ~ also lists what differs. diff " +
		"compares the data and the ACL of each znode, and whether the znode is ephemeral. It ignores versions and " +
		"times, and skips /zookeeper.\n\n" +
		endpointHelp +
		"\n\n" +
		"A and B can also be files: an export or a ZooKeeper snapshot. Write a file as ./FILE or file:FILE, and a " +
		"path inside it as file:FILE:/path.\n\n" +
		"The exit status is 0 if there is no difference, 1 if there is one, and 2 if the comparison could not be " +
		"completed.",
	Examples: []string{"diff /app @staging:/app", "diff -u /app /app.new", "diff -u /app ./app.json.gz"},
	Params:   []commands.Param{{Name: "a", Kind: commands.PlaceWord}, {Name: "b", Kind: commands.PlaceWord}},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		unified := fs.BoolP("unified", "u", false, "show which lines differ, for data that is text")
		return func(ctx context.Context, env *commands.Env, args []string) error {
			return withDiffStatus(withEndpoints(ctx, env, args, func(list []*endpoint) error {
				d := &comparison{env: env, a: list[0], b: list[1], unified: *unified}
				return d.show(ctx)
			}))
		}
	},
}

// errDiffer makes the command diff fail with exit status 1 and without a message. diff returns it
// if the subtrees differ.
var errDiffer = &commands.StatusError{Status: commands.StatusFailed}

// withDiffStatus sets the exit status of err to 2, unless err already has an exit status. Status 1
// means that the subtrees differ, and status 2 that the comparison failed.
func withDiffStatus(err error) error {
	own := []error{context.Canceled, zkconn.ConnectionLoss, zkconn.SessionExpired, zkconn.AuthFailed, zkconn.ErrNotConnected}
	if err == nil || peer.Unread(err) || errors.As(err, new(*commands.StatusError)) ||
		slices.ContainsFunc(own, func(status error) bool { return errors.Is(err, status) }) {
		return err
	}
	code := "Failed"
	if refusal, is := errors.AsType[zkconn.Code](err); is {
		code = refusal.Name()
	}
	return &commands.StatusError{Status: commands.StatusUsage, Code: code, Err: err}
}

// comparison is one run of the command diff, or of mirror -n.
type comparison struct {
	env          *commands.Env
	a, b         *endpoint
	unified      bool
	mayBeMissing bool // whether subtree A may be missing, because mirror would create it

	count      int // number of differences found
	unread     zktree.UnreadError
	incomplete error // error if A or B is an incomplete file, or nil
	err        error
}

func (d *comparison) show(ctx context.Context) error {
	d.incomplete = errors.Join(d.a.checkComplete(), d.b.checkComplete())
	update, end := d.env.Screen.Progress("compared")
	defer end()
	d.unread.Root = d.a.word + " and " + d.b.word
	all, err := differences(ctx, d.a, d.b, update, &d.unread, d.mayBeMissing)
	if err != nil {
		return err
	}
	err = d.env.Screen.Print(&render.Stream{
		Open: render.Facts{"a", d.a.word, "b", d.b.word}, List: "differences", Bare: true,
		Columns: []render.Column{{Header: " ", Width: 1}, {Header: "path"}, {Header: "differs"}},
		Items:   d.items(all), End: d.endError,
	})
	switch {
	case err != nil:
		return err
	case d.endError() != nil:
		return d.endError()
	case d.count > 0:
		return errDiffer
	}
	return nil
}

// endError returns an error if the comparison is incomplete.
func (d *comparison) endError() error {
	return errors.Join(d.err, d.unread.OrNil(), d.incomplete)
}

// items returns the items of the answer, and counts them.
func (d *comparison) items(all zktree.Differences) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		for x, err := range all {
			d.count++
			if d.err = err; err != nil || !yield(diffItem{x, zktree.Rebase(x.Path, d.a.Path, "/"), d.unified}) {
				return
			}
		}
	}
}

var _ render.Item = diffItem{}

// diffItem is one difference between two znodes in the output of diff.
type diffItem struct {
	zktree.Difference
	path    string // path relative to the roots of the two subtrees, with a slash at the beginning
	unified bool
}

// describe returns the mark that precedes a difference in the output (-, +, ~ or ?), and words that
// say which parts of the znode differ or why it cannot be read.
func (d diffItem) describe() (mark string, words []string) {
	switch {
	case d.Err != nil:
		return "?", []string{d.Err.Error()}
	case d.B == nil:
		return "-", nil
	case d.A == nil:
		return "+", nil
	}
	for _, x := range []struct {
		a    zktree.Aspect
		name string
	}{{zktree.DataDiffers, "data"}, {zktree.ACLDiffers, "acl"}, {zktree.KindDiffers, "ephemeral"}} {
		if d.Aspect&x.a != 0 {
			words = append(words, x.name)
		}
	}
	return "~", words
}

func (d diffItem) Cells() []string {
	mark, words := d.describe()
	cells := []string{mark, render.OneLine(d.path)}
	if words != nil {
		cells = append(cells, strings.Join(words, ", "))
	}
	if d.unified && d.Aspect&zktree.DataDiffers != 0 {
		cells[len(cells)-1] += strings.TrimSuffix("\n"+commands.DataDiff(d.A.Data, d.B.Data), "\n")
	}
	return cells
}

func (d diffItem) JSON() any {
	facts := render.Facts{"path", d.path}
	if _, words := d.describe(); d.Err != nil {
		return append(facts, "unread", d.Err.Error())
	} else if words != nil {
		facts = append(facts, "differs", words)
	}
	return append(facts, "a", znodeFacts(d.A), "b", znodeFacts(d.B))
}

// znodeFacts returns the JSON description of a znode, which is null if the znode is missing.
func znodeFacts(z *dump.Znode) any {
	if z == nil {
		return nil
	}
	return render.Facts{"data", render.Data(z.Data), "acl", commands.FormatACL(z.ACL), "kind", z.Kind.String()}
}
