package commands

import (
	"context"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/zkconn"
)

var addWatchCommand = &Command{
	Name: "addWatch", Group: "Watches", Args: "[-m mode] path",
	Summary:  "set a persistent watch, which remains after it fires",
	Help:     "A recursive watch covers the entire subtree.",
	Limits:   []string{"addWatch needs ZooKeeper 3.6 or later."},
	Examples: []string{"addWatch -m PERSISTENT /app", "addWatch /app"},
	Params:   []Param{pathParam},
	Passing:  watchPassed,
	Flags: func(fs *pflag.FlagSet) Run {
		mode := fs.StringP("mode", "m", "PERSISTENT_RECURSIVE", "set a watch of this `mode`: PERSISTENT or PERSISTENT_RECURSIVE, in upper or lower case")
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
			return env.answer(zkconn.Exec(ctx, env.Session, zkconn.AddWatch(args[0], recursive)), done("addWatch", args[0]))
		}
	},
}

var removewatchesCommand = &Command{
	Name: "removewatches", Group: "Watches", Args: "path [-c|-d|-p|-r|-a] [-l]",
	Summary: "remove this session's watches on a znode",
	Help: "With a flag, removewatches removes only the watches of that kind. Without one, it removes all of this session's " +
		"watches on the znode.",
	Limits:   []string{"-p and -r need ZooKeeper 3.9 or later."},
	Examples: []string{"removewatches /app -d", "removewatches /app"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		children := fs.BoolP("children", "c", false, "remove the watches on the children")
		data := fs.BoolP("data", "d", false, "remove the watches on the data")
		persistent := fs.BoolP("persistent", "p", false, "remove the persistent watches")
		recursive := fs.BoolP("recursive", "r", false, "remove the persistent recursive watches")
		fs.BoolP("all", "a", false, "remove all watches")
		local := fs.BoolP("local", "l", false, "remove the watches locally, even if no server can be reached")
		return func(ctx context.Context, env *Env, args []string) error {
			kind := zkconn.AnyWatches
			switch { // if several flags are given, the first of these cases applies, as in zkCli
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
