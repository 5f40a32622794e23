package commands

import (
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/dump"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// listing is the result of ls: the children of a znode.
type listing struct {
	Path     string       `json:"path"`
	Children []string     `json:"children"`
	Decoded  []string     `json:"decoded,omitempty"`
	Stat     *render.Stat `json:"stat,omitempty"`
}

// displayNames returns the children's names in the form in which ls prints them.
func (l *listing) displayNames() []string {
	if l.Decoded != nil {
		return l.Decoded
	}
	return l.Children
}

// Text prints the list of children in zkCli's format, followed by the stat if there is one.
func (l *listing) Text(w io.Writer) error {
	return render.Answer{Words: render.JavaList(l.displayNames()) + "\n", Stat: l.Stat}.Text(w)
}

// Columns returns the children's names and the znode's stat. On a terminal, ls prints the names in
// columns if they do not fit on one line.
func (l *listing) Columns() ([]string, *render.Stat) { return l.displayNames(), l.Stat }

// onePerLine returns the result of ls -1. It differs from the listing only in its text.
func (l *listing) onePerLine() render.Answer {
	var words strings.Builder
	for _, name := range l.displayNames() {
		words.WriteString(render.OneLine(name) + "\n")
	}
	return render.Answer{Words: words.String(), Grid: l.Table(), JSON: l}
}

// Table returns a table with one row for each child.
func (l *listing) Table() render.Grid {
	g := oneColumn("child", l.displayNames())
	g.Stat = l.Stat
	return g
}

var lsCommand = &Command{
	Name: "ls", Group: "Reading", Effect: OneRequest | OneStream,
	Except:  ByFlag(map[string]Effect{"recursive": OneRequest, "long": OneRequest}),
	Args:    "[-s] [-w] [-R] [-l] [-1] [-u] [path]",
	Summary: "list a znode's children",
	Help: "Without a path, ls lists the current znode (see cd). Without -R, ls prints the names in sorted order.\n\n" +
		"With -R, ls prints the path of every znode in the subtree, one per line: first all children of a znode, in " +
		"the server's order, then the subtree of each child. ls tolerates znodes that are created or deleted while " +
		"it reads the tree. Unreadable znodes are listed at the end.\n\n" +
		"With -l, ls prints one line for each child, with these columns: kind, data version, number of children, " +
		"size in bytes, age of the data according to this machine's clock, owner (the session, if the child is " +
		"ephemeral), and name.",
	Limits:   []string{"On a terminal that is too narrow for all columns, ls -l leaves out the session."},
	Examples: []string{"ls -R /app", "ls -l /app", "ls -1 /app | grep web"},
	Params:   []Param{{Name: "path", Kind: Path, Optional: true, Here: true, Root: true}, watchParam},
	Passing:  watchPasses,
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "also print the znode's stat")
		watch := fs.BoolP("watch", "w", false, "set a watch on the children")
		recurse := fs.BoolP("recursive", "R", false, "list the entire subtree")
		long := fs.BoolP("long", "l", false, "print one line for each child, with the main fields of its stat")
		lines := fs.BoolP("lines", "1", false, "print one name per line, without brackets")
		decode := fs.BoolP("unescape", "u", false, "decode names that are URL-encoded, such as Dubbo's")
		usage := fs.BoolP("usage", "?", false, "print zkCli's help for ls first")
		return func(ctx context.Context, env *Env, args []string) error {
			if *usage {
				if err := env.Screen.Print(lsHelp); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return Misuse("missing path")
			}
			w, err := watchArg(env, args, *watch, "ls path [watch]", "ls [-w] path")
			if err != nil {
				return err
			}
			switch {
			case *long && (*recurse || *stat || *lines || w):
				return Misuse("-l can only be combined with -u")
			case *lines && (*recurse || *stat):
				return Misuse("-1 can only be combined with -u and -w")
			case *long:
				return listLong(ctx, env, args[0], *decode)
			case *recurse:
				return listTree(ctx, env, args[0], w, *decode)
			}
			l, err := list(ctx, env, args[0], w, *stat, *decode)
			if *lines {
				return env.answer(err, l.onePerLine())
			}
			return env.answer(err, l)
		}
	},
}

// lsHelp is the text that zkCli prints for ls -?.
var lsHelp = render.Answer{Words: "usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch\n",
	JSON: render.Facts{"usage", "ls [-s] [-w] [-R] path"}}

func list(ctx context.Context, env *Env, path string, watch, stat, decode bool) (*listing, error) {
	node, err := zkconn.Do(ctx, env.Session, zkconn.List(path).Watch(watch))
	slices.Sort(node.Names)
	l := &listing{Path: path, Children: node.Names, Stat: statIfWanted(stat, node.Stat)}
	if decode {
		l.Decoded = make([]string, len(node.Names))
		for i, name := range node.Names {
			l.Decoded[i] = unescape(name)
		}
	}
	return l, err
}

// unescape decodes a URL-encoded name or path, and returns an invalid encoding unchanged. It
// escapes line breaks and tabs in the result, so that the result stays on one line.
func unescape(name string) string {
	if !strings.Contains(name, "%") {
		return name
	}
	plain, err := url.QueryUnescape(name)
	if err != nil || !utf8.ValidString(plain) {
		return name
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(plain)
}

// listTree prints the paths of all znodes in a subtree. If watch is true, it sets a child watch on
// every znode and, as zkCli does, a data watch on the root.
func listTree(ctx context.Context, env *Env, path string, watch, decode bool) error {
	if watch {
		if _, err := zkconn.Do(ctx, env.Session, zkconn.Exists(path).Watch(true)); err != nil {
			return err
		}
	}
	s, err := surveyOf(ctx, env, path, zktree.Options{Watch: watch})
	if err != nil {
		return err
	}
	return s.print(pathStream(path, s.items("listed", func(z *dump.Znode, _ error, yield func(render.Item) bool) bool {
		if z.Path == path && !yield(pathItem{path, decode}) {
			return false
		}
		below := zkconn.Join(z.Path, "")
		for _, name := range z.Children {
			if !yield(pathItem{below + name, decode}) {
				return false
			}
		}
		return true
	})))
}

var ls2Command = &Command{
	Name: "ls2", Group: "Reading", Effect: OneRequest, Args: "path [watch]",
	Summary:  "list a znode's children and stat (old name of ls -s)",
	Help:     "ls2 is the ZooKeeper 3.4 name for ls -s.",
	Examples: []string{"ls2 /app", "ls2 /"},
	Params:   []Param{pathParam, watchParam},
	Passing:  watchPasses,
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		env.Screen.Note("'ls2' has been deprecated. Please use 'ls [-s] path' instead.")
		w, err := watchArg(env, args, false, "ls2 path [watch]", "ls [-s] [-w] path")
		if err != nil {
			return err
		}
		l, err := list(ctx, env, args[0], w, true, false)
		return env.answer(err, l)
	}),
}

// listLong prints the children of a znode, each with some fields of its stat. If decode is true, it
// decodes URL-encoded names.
func listLong(ctx context.Context, env *Env, path string, decode bool) error {
	s, err := surveyOf(ctx, env, path, zktree.Options{Stat: true, Depth: 1})
	if err != nil {
		return err
	}
	now := time.Now()
	return s.print(&render.Stream{
		Open: render.Facts{"path", path}, List: "children",
		Columns: []render.Column{
			{Header: "kind", Width: 10}, {Header: "version", Width: 7, Right: true}, {Header: "children", Width: 8, Right: true},
			{Header: "bytes", Width: 7, Right: true}, {Header: "age", Width: 4, Right: true}, {Header: "owner", Width: 18, Spare: true}, {Header: "name"},
		},
		Items: s.items("listed", func(z *dump.Znode, _ error, yield func(render.Item) bool) bool {
			if z.Path == path {
				return true
			}
			return yield(&longItem{nameOf(z.Path), z.Kind, (*render.Stat)(z.Stat), now, decode})
		}),
	})
}

var _ render.Item = (*longItem)(nil)

// longItem is one child in the output of ls -l.
type longItem struct {
	name   string
	kind   dump.Kind
	stat   *render.Stat // nil if the stat is unknown
	now    time.Time
	decode bool
}

func (l *longItem) owner() string {
	if l.stat.EphemeralOwner == 0 {
		return "-"
	}
	return render.Hex(l.stat.EphemeralOwner)
}

// age returns the time since the last write to the znode's data. It returns "-" if mtime is 0, as
// for /zookeeper and other znodes that a server created itself.
func (l *longItem) age() string {
	if l.stat.Mtime == 0 {
		return "-"
	}
	return Age(l.now.Sub(time.UnixMilli(l.stat.Mtime)))
}

func (l *longItem) Cells() []string {
	name := render.OneLine(l.name)
	if l.decode {
		name = unescape(name)
	}
	if l.stat == nil {
		return []string{"-", "-", "-", "-", "-", "-", name}
	}
	return []string{l.kind.String(), strconv.Itoa(int(l.stat.Version)), strconv.Itoa(int(l.stat.NumChildren)),
		strconv.Itoa(int(l.stat.DataLength)), l.age(), l.owner(), name}
}

func (l *longItem) JSON() any {
	facts := render.Facts{"name", l.name, "stat", l.stat}
	if l.stat != nil {
		facts = render.Facts{"name", l.name, "kind", l.kind.String(), "stat", l.stat}
	}
	if l.decode {
		facts = append(facts, "decoded", unescape(l.name))
	}
	return facts
}

// Age formats a duration as a whole number of its largest unit, such as 3d. A negative duration,
// which can result from unsynchronized clocks, becomes 0s.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	units := []struct {
		of   time.Duration
		name string
	}{{365 * day, "y"}, {day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}}
	for _, u := range units {
		if d >= u.of {
			return strconv.Itoa(int(d/u.of)) + u.name
		}
	}
	return strconv.Itoa(int(max(d, 0)/time.Second)) + "s"
}
