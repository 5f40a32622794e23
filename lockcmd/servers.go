package lockcmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/queue"
)

// ensembleGroup is the heading of commands about the servers.
const ensembleGroup = "Ensemble"

var serversCommand = &commands.Command{
	Name: "servers", Group: ensembleGroup, Args: "[-q]",
	Summary: "show each server's role, version and state, and whether a quorum answers",
	Help: "Asks every member by the four-letter words srvr and mntr, whether there is a session or not. The members are those of the " +
		"connect string, and those that the ensemble's configuration has besides. LAG is in transactions. VERSION begins with the product if that is not ZooKeeper. The status is 0 only if more " +
		"than half of the voters serve, one of them as the leader (weights and groups are not looked at), and 1 if not.",
	Examples: []string{"servers -q"},
	Offline:  true,
	Flags: func(fs *pflag.FlagSet) commands.Run {
		quiet := fs.BoolP("quiet", "q", false, "print nothing, only set the status")
		return func(ctx context.Context, env *commands.Env, _ []string) error {
			s := queue.LookServers(ctx, ensemble{env.Session})
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !*quiet {
				if err := env.Screen.Print(s); err != nil {
					return err
				}
				noteNotTold(env, s.NotTold)
			}
			if !s.Quorum {
				return &commands.StatusError{Status: commands.StatusFailed}
			}
			return nil
		}
	},
}

// noteNotTold remarks what servers keep to themselves.
func noteNotTold(env *commands.Env, list []string) {
	for _, text := range list {
		env.Screen.Note("not reported: " + text)
	}
}
