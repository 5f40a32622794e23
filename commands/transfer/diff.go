package transfer

import (
	"context"
	"errors"
	"fmt"
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
	Name: "diff", Group: "Trees", Effect: commands.OneStream, Args: "[-u | --script] [--max-size MiB] a b",
	Summary: "compare two subtrees, each on a server or in a file",
	Help: "diff prints one line for each difference. The line begins with - if the znode is only in A, with + if it is " +
		"only in B, and with ~ if it is in both but differs. A line that begins with ~ also lists what differs. diff " +
		"compares the data and the ACL of each znode, and whether the znode is ephemeral. It ignores versions and " +
		"times, and skips /zookeeper.\n\n" +
		sideHelp +
		"\n\n" +
		"A and B can also be files: an export, a ZooKeeper snapshot, or a server's data folder (its newest snapshot " +
		"and the logs since then). Write a file as ./FILE or file:FILE, and a path inside it as file:FILE:/path.\n\n" +
		"With --script, diff prints the commands that make A the same as B. Review the commands, and then run them " +
		"with zksh -e < FILE. If A has changed since then, the commands fail.\n\n" +
		"The exit status is 0 if there is no difference, 1 if there is one, and 2 if the comparison could not be " +
		"completed.",
	Examples: []string{"diff /app @staging:/app", "diff -u /app /app.new", "diff --script /app ./app.json.gz > review.zk"},
	Params:   []commands.Param{{Name: "a", Kind: commands.Side}, {Name: "b", Kind: commands.Side}},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		unified := fs.BoolP("unified", "u", false, "show which lines differ, for data that is text")
		script := fs.Bool("script", false, "print the commands that make A the same as B")
		most := commands.FlagMaxSize(fs)
		return func(ctx context.Context, env *commands.Env, args []string) error {
			if *unified && *script {
				return commands.Misuse("use only one of -u and --script")
			}
			return troubled(within(ctx, env, args, func(list []*side) error {
				d := &comparison{env: env, a: list[0], b: list[1], unified: *unified, script: *script}
				return d.show(ctx)
			}, most()))
		}
	},
}

// errDiffer is the status of two trees that are not the same.
var errDiffer = &commands.StatusError{Status: commands.StatusFailed}

// troubled has a comparison that was not made another status than one that found a
// difference, unless its error has one of its own.
func troubled(err error) error {
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

// comparison is of two sides.
type comparison struct {
	env             *commands.Env
	a, b            *side
	unified, script bool
	made            bool // A is, if it is not there

	n      int // differences
	unread zktree.UnreadError
	lacks  error // of a file that does not have all
	err    error
}

func (d *comparison) show(ctx context.Context) error {
	if d.lacks = errors.Join(d.a.lacks(), d.b.lacks()); d.lacks != nil && d.script {
		return fmt.Errorf("no script was written: %w; a script could delete znodes that exist on the servers but are missing here", d.lacks)
	}
	update, end := d.env.Screen.Progress("compared")
	defer end()
	differences, err := d.differences(ctx, update)
	if err != nil {
		return err
	}
	v := &render.Stream{Open: render.Facts{"a", d.a.word, "b", d.b.word}, List: "differences", Bare: true, End: d.end,
		Columns: []render.Column{{Header: " ", Width: 1}, {Header: "path"}, {Header: "differs"}}}
	if v.Items = d.items(differences); d.script {
		v.List, v.Columns = "commands", []render.Column{{Header: "command"}}
		v.Items = d.lines(scriptLines(zktree.Plan(d.a.Path, differences)))
	}
	err = d.env.Screen.Print(v)
	switch {
	case err != nil:
		return err
	case d.end() != nil:
		return d.end()
	case d.n > 0:
		return errDiffer
	}
	return nil
}

// end is the error of a comparison that is not whole.
func (d *comparison) end() error {
	return errors.Join(d.err, d.unread.OrNil(), d.lacks)
}

// differences are those of the sides, and counts them.
func (d *comparison) differences(ctx context.Context, update zktree.Progress) (iter.Seq2[zktree.Difference, error], error) {
	d.unread.Root = d.a.word + " and " + d.b.word
	a, err := d.a.nodes(ctx, update)
	if err != nil {
		return nil, err
	}
	b, err := d.b.nodes(ctx, nil)
	if err != nil {
		return nil, err
	}
	if d.made {
		a = a.OrEmpty()
	}
	return func(yield func(zktree.Difference, error) bool) {
		for x, err := range zktree.Compare(a, b) {
			if d.n++; x.Err != nil {
				d.unread.Add(x.Err)
			}
			if !yield(x, err) {
				return
			}
		}
	}, nil
}

func (d *comparison) items(differences iter.Seq2[zktree.Difference, error]) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		for x, err := range differences {
			if d.err = err; err != nil || !yield(difference{x, d.unified}) {
				return
			}
		}
	}
}

func (d *comparison) lines(lines iter.Seq2[string, error]) iter.Seq[render.Item] {
	return func(yield func(render.Item) bool) {
		head := line(fmt.Sprintf("# This script makes %s equal to %s. Run it on the ensemble of %s: zksh -e < FILE",
			commands.Quote(d.a.word), commands.Quote(d.b.word), commands.Quote(d.a.word)))
		for text, err := range lines {
			if d.err = err; err != nil || head != "" && !yield(head) || !yield(line(text)) {
				return
			}
			head = ""
		}
	}
}

// line is one of a script.
type line string

// Cells is part of render.Item.
func (l line) Cells() []string { return []string{string(l)} }

// JSON is part of render.Item.
func (l line) JSON() any { return string(l) }

// difference is one in an answer.
type difference struct {
	zktree.Difference
	unified bool
}

// what is the difference: a mark, and words.
func (d difference) what() (mark string, words []string) {
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

// path is the place below both roots.
func (d difference) path() string {
	if d.Below == "" {
		return "/"
	}
	return d.Below
}

// Cells is part of render.Item.
func (d difference) Cells() []string {
	mark, words := d.what()
	cells := []string{mark, render.OneLine(d.path())}
	if words != nil {
		cells = append(cells, strings.Join(words, ", "))
	}
	if d.unified && d.Aspect&zktree.DataDiffers != 0 {
		cells[len(cells)-1] += strings.TrimSuffix("\n"+commands.DataDiff(d.A.Data, d.B.Data), "\n")
	}
	return cells
}

// JSON is part of render.Item.
func (d difference) JSON() any {
	facts := render.Facts{"path", d.path()}
	if _, words := d.what(); d.Err != nil {
		return append(facts, "unread", d.Err.Error())
	} else if words != nil {
		facts = append(facts, "differs", words)
	}
	return append(facts, "a", sideOf(d.A), "b", sideOf(d.B))
}

// sideOf is a znode of one of the sides in JSON; null where it is not there.
func sideOf(z *dump.Znode) any {
	if z == nil {
		return nil
	}
	acl, _ := commands.FormatACL(z.ACL)
	return render.Facts{"data", render.Data(z.Data), "acl", acl, "kind", z.Kind.String()}
}
