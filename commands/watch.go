package commands

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var addWatchCommand = &Command{
	Name: "addWatch", Group: "Watches", Args: "[-m mode] path",
	Summary:  "leave a watch that stays after it fires",
	Help:     "A recursive watch covers the whole subtree. Servers from 3.6 on.",
	Examples: []string{"addWatch -m PERSISTENT /app"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		mode := fs.StringP("mode", "m", "PERSISTENT_RECURSIVE", "PERSISTENT or PERSISTENT_RECURSIVE, in any case")
		FlagWords(fs, "mode", "PERSISTENT", "PERSISTENT_RECURSIVE")
		return func(ctx context.Context, env *Env, args []string) error {
			var recursive bool
			switch strings.ToUpper(*mode) {
			case "PERSISTENT_RECURSIVE":
				recursive = true
			case "PERSISTENT":
			default:
				return Misuse("unknown mode %q; the modes are PERSISTENT and PERSISTENT_RECURSIVE", *mode)
			}
			return env.answer(env.Session.AddWatch(ctx, args[0], recursive), done("addWatch", args[0]))
		}
	},
}

var removewatchesCommand = &Command{
	Name: "removewatches", Group: "Watches", Args: "path [-c|-d|-p|-r|-a] [-l]",
	Summary:  "remove this session's watches on a znode",
	Help:     "Without a kind all watches go; -c and -d leave persistent ones. -p and -r need a server from 3.9 on.",
	Examples: []string{"removewatches /app -d"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		children := fs.BoolP("children", "c", false, "the watches on the children")
		data := fs.BoolP("data", "d", false, "the watches on the data")
		persistent := fs.BoolP("persistent", "p", false, "the persistent watches")
		recursive := fs.BoolP("recursive", "r", false, "the persistent recursive watches")
		fs.BoolP("all", "a", false, "all watches")
		local := fs.BoolP("local", "l", false, "forget them here, also while no server can be reached")
		return func(ctx context.Context, env *Env, args []string) error {
			kind := zkconn.AnyWatches
			switch { // several: the first of these, as in zkCli
			case *children:
				kind = zkconn.ChildrenWatches
			case *data:
				kind = zkconn.DataWatches
			case *persistent:
				kind = zkconn.PersistentWatches
			case *recursive:
				kind = zkconn.RecursiveWatches
			}
			return env.answer(env.Session.RemoveWatches(ctx, args[0], kind, *local), done("removewatches", args[0]))
		}
	},
}

var getEphemeralsCommand = &Command{
	Name: "getEphemerals", Group: "Watches", Args: "[path]",
	Summary:  "list this session's ephemeral znodes",
	Help:     "Only those whose path begins with the given text. Servers from 3.6 on.",
	Examples: []string{"getEphemerals /app"},
	Params:   []Param{{Name: "path", Kind: Path, Optional: true}},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		prefix := "/"
		if len(args) > 0 {
			prefix = args[0]
		}
		paths, err := env.Session.Ephemerals(ctx, prefix)
		return env.answer(err, render.Answer{Words: render.JavaList(paths) + "\n", Grid: column("path", paths),
			JSON: render.Facts{"prefix", prefix, "ephemerals", paths}})
	}),
}
