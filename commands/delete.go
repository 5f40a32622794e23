package commands

import (
	"context"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

var deleteCommand = &Command{
	Name: "delete", Group: "Writing", Effect: Writes | Destroys | OneRequest | Joins, Args: "[-v version] path [version]",
	Summary:  "delete a znode that has no children",
	Help:     "If you specify a version, delete deletes the znode only if its current dataVersion matches that version.",
	Examples: []string{"delete -v 3 /app/config", "delete /app/config"},
	Params:   []Param{pathParam, {Name: "version", Kind: Data, Optional: true}},
	Look:     lookWith("exists"),
	Flags: func(fs *pflag.FlagSet) Run {
		version := numberFlag(fs, 32, "version", "v", -1, "delete only if the dataVersion equals this `version`")
		return func(ctx context.Context, env *Env, args []string) error {
			v, err := versionArg(fs, args, 1, version)
			if err != nil {
				return err
			}
			if len(args) > 1 {
				env.Screen.Note("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
			}
			e := &zktree.Edit{Does: zktree.Deletes, Path: args[0], Old: anyOr(v, zk.Stat{Version: v})}
			err = env.changeOne(ctx, "delete", e, func(ctx context.Context, version int32) error {
				return zkconn.Exec(ctx, env.Session, zkconn.Delete(args[0], version))
			})
			return env.answer(err, done("delete", args[0]))
		}
	},
}
