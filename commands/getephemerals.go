package commands

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var getEphemeralsCommand = &Command{
	Name: "getEphemerals", Group: "Watches", Args: "[path]",
	Summary: "list this session's ephemeral znodes",
	Help: "getEphemerals prints the paths of all ephemeral znodes that this session created. With a path, it prints only " +
		"those that begin with this path.",
	Limits: []string{
		"getEphemerals needs ZooKeeper 3.6 or later.",
		"The path is compared as text: getEphemerals /a also prints /ab.",
	},
	Examples: []string{"getEphemerals /app", "getEphemerals"},
	Params:   []Param{{Name: "path", Kind: Path, Optional: true, Slash: func(*pflag.FlagSet) bool { return true }}},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		prefix := "/"
		if len(args) > 0 {
			prefix = args[0]
		}
		paths, err := zkconn.Do(ctx, env.Session, zkconn.GetEphemerals(prefix))
		return env.answer(err, render.Answer{Words: render.JavaList(paths) + "\n", Grid: oneColumn("path", paths),
			JSON: render.Facts{"prefix", prefix, "ephemerals", paths}})
	}),
}
