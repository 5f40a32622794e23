package commands

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var (
	pathParam  = Param{Name: "path", Kind: Path}
	watchParam = Param{Name: "watch", Kind: Data, Optional: true}
)

// listing is the answer of ls.
type listing struct {
	Path     string       `json:"path"`
	Children []string     `json:"children"`
	Stat     *render.Stat `json:"stat,omitempty"`
}

// Text is zkCli's list, and the stat block if there is one.
func (l *listing) Text(w io.Writer) error {
	return render.Answer{Words: render.JavaList(l.Children) + "\n", Stat: l.Stat}.Text(w)
}

// statIf is the stat of an answer that has one only if that is wished.
func statIf(wished bool, st *zk.Stat) *render.Stat {
	if !wished {
		return nil
	}
	return (*render.Stat)(st)
}

// Columns is the list for a terminal: it is laid out once it fills a line.
func (l *listing) Columns() ([]string, *render.Stat) { return l.Children, l.Stat }

// Table has a row for each child.
func (l *listing) Table() render.Grid {
	g := column("child", l.Children)
	g.Stat = l.Stat
	return g
}

// column is a table of one column.
func column(header string, items []string) render.Grid {
	g := render.Grid{Header: []string{header}}
	for _, i := range items {
		g.Rows = append(g.Rows, []string{i})
	}
	return g
}

// subtree is the answer of ls -R: one path a line.
type subtree struct {
	root *zktree.Node
}

// Text prints the paths in zkCli's order.
func (s subtree) Text(w io.Writer) error {
	for n := range s.root.All() {
		if _, err := io.WriteString(w, n.Path+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (s subtree) paths() (all []string) {
	for n := range s.root.All() {
		all = append(all, n.Path)
	}
	return all
}

// Table has a row for each path.
func (s subtree) Table() render.Grid { return column("path", s.paths()) }

// MarshalJSON gives {"path": …, "paths": […]}, the root first.
func (s subtree) MarshalJSON() ([]byte, error) {
	return render.Facts{"path", s.root.Path, "paths", s.paths()}.MarshalJSON()
}

var lsCommand = &Command{
	Name: "ls", Group: "Reading", Args: "[-s] [-w] [-R] path", OneRequest: unless("recursive"),
	Summary: "list a znode's children",
	Help:    "Names are sorted. With -R every path of the subtree is printed, a line each: first a node's children, then their subtrees.",
	Example: "ls -R /app",
	Params:  []Param{{Name: "path", Kind: Path, Optional: true}, watchParam},
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "print the znode's stat as well")
		watch := fs.BoolP("watch", "w", false, "leave a watch on the children")
		recurse := fs.BoolP("recursive", "R", false, "list the whole subtree")
		help := fs.BoolP("help", "?", false, "print zkCli's help for ls first")
		return func(ctx context.Context, env *Env, args []string) error {
			if *help {
				if err := env.Screen.Print(lsHelp); err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return Misuse("missing path")
			}
			w, err := watchArg(env, args, 1, *watch, "ls path [watch]", "ls [-w] path")
			if err != nil {
				return err
			}
			if *recurse {
				return listTree(ctx, env, args[0], w)
			}
			return list(ctx, env, args[0], w, *stat)
		}
	},
}

// lsHelp is what zkCli's ls -? prints.
var lsHelp = render.Answer{Words: "usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch\n",
	JSON: render.Facts{"usage", "ls [-s] [-w] [-R] path"}}

func list(ctx context.Context, env *Env, path string, watch, stat bool) error {
	names, st, err := env.Session.Children(ctx, path, watch)
	slices.Sort(names)
	return env.answer(err, &listing{path, names, statIf(stat, st)})
}

// listTree prints a subtree. With watch it leaves a data watch on the root, as
// zkCli does, and a child watch on every node.
func listTree(ctx context.Context, env *Env, path string, watch bool) error {
	if watch {
		if _, err := env.Session.Exists(ctx, path, true); err != nil {
			return err
		}
	}
	update, end := env.Screen.Progress("listed")
	root, _, err := zktree.List(ctx, env.Session.Client, path, zktree.Options{Watch: watch, Progress: update})
	end()
	return env.answer(err, subtree{root})
}

var ls2Command = &Command{
	Name: "ls2", Group: "Reading", Args: "path [watch]", OneRequest: always,
	Summary: "list a znode's children and print its stat (3.4's name for ls -s)",
	Example: "ls2 /app",
	Params:  []Param{pathParam, watchParam},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		env.Screen.Note("'ls2' has been deprecated. Please use 'ls [-s] path' instead.")
		w, err := watchArg(env, args, 1, false, "ls2 path [watch]", "ls [-s] [-w] path")
		if err != nil {
			return err
		}
		return list(ctx, env, args[0], w, true)
	}),
}

// value is the answer of get. Its words and its cell stand for the data in the text
// and in the table.
func value(path string, data []byte, words, cell string, stat *render.Stat) render.Answer {
	g := render.Grid{Header: []string{"field", "value"}, Rows: [][]string{{"path", path}, {"data", cell}}}
	if stat != nil {
		g.Rows = append(g.Rows, stat.Table().Rows...)
	}
	return render.Answer{Words: words + "\n", Stat: stat, Grid: g,
		JSON: render.Facts{"path", path, "data", render.Data(data), "stat", stat}}
}

var getCommand = &Command{
	Name: "get", Group: "Reading", Args: "[-s] [-w] [-b] [-x] [-j] [-f file] path", OneRequest: unless("file"),
	Summary: "print a znode's data",
	Help:    "A znode without data prints null. With -f the data goes into a file, byte for byte, and nothing is printed.",
	Example: "get -s /app/config",
	Params:  []Param{pathParam, watchParam},
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "print the znode's stat as well")
		watch := fs.BoolP("watch", "w", false, "leave a watch on the data")
		b64 := fs.BoolP("base64", "b", false, "print the data in base64")
		hex := fs.BoolP("hex", "x", false, "print a hex dump of the data")
		pretty := fs.BoolP("json", "j", false, "print data that is JSON indented; anything else is refused")
		file := fs.StringP("file", "f", "", "write the data into this file, byte for byte; - is standard output")
		FlagFile(fs, "file")
		return func(ctx context.Context, env *Env, args []string) error {
			w, err := watchArg(env, args, 1, *watch, "get path [watch]", "get [-s] [-w] path")
			if err != nil {
				return err
			}
			data, st, err := env.Session.Get(ctx, args[0], w)
			if err != nil {
				return err
			}
			if fs.Changed("file") {
				if *file == "-" {
					return env.Screen.Print(render.Answer{Words: string(data), JSON: render.Data(data)})
				}
				return env.answer(saveFile(*file, data), done("get", args[0]))
			}
			cell := string(data)
			if data == nil {
				cell = "null"
			}
			words := cell
			switch {
			case *pretty && !json.Valid(data):
				return fmt.Errorf("the data of %s is no JSON; without -j it is printed as it is", args[0])
			case *pretty:
				var b bytes.Buffer
				if err := json.Indent(&b, data, "", "  "); err != nil {
					return err
				}
				words = b.String()
			case *hex:
				words = hexDump([]byte(cell))
			case *b64:
				words = base64.StdEncoding.EncodeToString([]byte(cell))
				if data != nil {
					cell = words
				}
			}
			return env.Screen.Print(value(args[0], data, words, cell, statIf(*stat, st)))
		}
	},
}

var statCommand = &Command{
	Name: "stat", Group: "Reading", Args: "[-w] [-h] path", OneRequest: always,
	Summary: "print a znode's stat",
	Help:    "With -w a watch is left on the znode, also on one that does not exist yet.",
	Example: "stat /app",
	Params:  []Param{pathParam, watchParam},
	Flags: func(fs *pflag.FlagSet) Run {
		watch := fs.BoolP("watch", "w", false, "leave a watch on the znode or its creation")
		human := fs.BoolP("human", "h", false, "print times as ISO 8601 and how long ago they were, by this machine's clock")
		return func(ctx context.Context, env *Env, args []string) error {
			w, err := watchArg(env, args, 1, *watch, "stat path [watch]", "stat [-w] path")
			if err != nil {
				return err
			}
			st, err := env.Session.Exists(ctx, args[0], w)
			if err != nil {
				return err
			}
			if *human {
				return env.Screen.Print((*render.Stat)(st).Human(time.Now()))
			}
			return env.Screen.Print((*render.Stat)(st))
		}
	},
}

var existsCommand = &Command{
	Name: "exists", Group: "Reading", Args: "path", OneRequest: always,
	Summary: "tell by the exit status whether a znode exists (0 yes, 1 no)",
	Help:    "A znode that may not be read exists all the same.",
	Example: "exists /app/ready",
	Params:  []Param{pathParam},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		_, err := env.Session.Exists(ctx, args[0], false)
		err = ignore(err, zkconn.NoAuth) // it is asked for only where there is a znode
		answer := render.Answer{JSON: render.Facts{"path", args[0], "exists", err == nil}}
		if failed := env.answer(ignore(err, zkconn.NoNode), answer); failed != nil || err == nil {
			return failed
		}
		return &StatusError{Status: StatusFailed}
	}),
}
