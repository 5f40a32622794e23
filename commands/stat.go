package commands

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var statCommand = &Command{
	Name: "stat", Group: "Reading", Effect: OneRequest, Args: "[-w] [-h] path",
	Summary:  "print a znode's stat",
	Help:     "With -w, stat also sets a watch. If the znode does not exist, the watch reports its creation.",
	Examples: []string{"stat /app", "stat -h /app/config"},
	Params:   []Param{hereParam, watchParam},
	Passing:  watchPasses,
	Flags: func(fs *pflag.FlagSet) Run {
		watch := fs.BoolP("watch", "w", false, "set a watch on the znode, or on its creation")
		human := fs.BoolP("human", "h", false, "print times in ISO 8601 format, with their age according to this machine's clock")
		return func(ctx context.Context, env *Env, args []string) error {
			w, err := watchArg(env, args, *watch, "stat path [watch]", "stat [-w] path")
			if err != nil {
				return err
			}
			st, err := zkconn.Do(ctx, env.Session, zkconn.Exists(args[0]).Watch(w))
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
	Name: "exists", Group: "Reading", Effect: OneRequest, Args: "path",
	Summary: "check whether a znode exists, and set the exit status",
	Help: "The exit status is 0 if the znode exists and 1 if it does not. A znode that you are not permitted to read still " +
		"counts as existing.",
	Examples: []string{"exists /app/ready", "exists /"},
	Params:   []Param{pathParam},
	Flags: func(fs *pflag.FlagSet) Run {
		return func(ctx context.Context, env *Env, args []string) error {
			_, err := zkconn.Do(ctx, env.Session, zkconn.Exists(args[0]))
			err = ignore(err, zkconn.NoAuth) // a server returns NoAuth only if the znode exists
			answer := render.Answer{JSON: render.Facts{"path", args[0], "exists", err == nil}}
			if failed := env.answer(ignore(err, zkconn.NoNode), answer); failed != nil || err == nil {
				return failed
			}
			return &StatusError{Status: StatusFailed}
		}
	},
}
