package lockcmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/cluster"
)

// ensembleGroup is the heading under which the help lists commands about the servers.
const ensembleGroup = "Ensemble"

var serversCommand = &commands.Command{
	Name: "servers", Group: ensembleGroup, Effect: commands.Offline, Args: "[-q]",
	Summary: "show each server's role, version and state",
	Help: "servers queries each server of the ensemble with the four-letter commands srvr and mntr, without a session. It " +
		"queries the servers of the connect string and those in the ensemble's configuration.\n\n" +
		"The LAG column shows the number of transactions that a server still has to receive from the leader. If a server " +
		"is not ZooKeeper, the VERSION column also names the product.\n\n" +
		"Below the table, servers lists the known bugs of the members' ZooKeeper versions that break locks or lose data.\n\n" +
		"The exit status is 0 if a quorum is available: a leader and more than half of the voters respond. Otherwise, it is 1.",
	Limits: []string{
		"The weights and groups of voters are ignored.",
		"Bugs are listed by version number only; a distribution may have fixed some of them in its package.",
	},
	Examples: []string{"servers -q", "servers"},
	Flags: func(fs *pflag.FlagSet) commands.Run {
		quiet := fs.BoolP("quiet", "q", false, "print nothing; only set the exit status")
		return func(ctx context.Context, env *commands.Env, _ []string) error {
			s := cluster.FindServers(ctx, ensemble{env.Session})
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if !*quiet {
				if err := env.Screen.Print(s); err != nil {
					return err
				}
				noteMissing(env, s.NotTold)
			}
			if !s.Quorum {
				return &commands.StatusError{Status: commands.StatusFailed}
			}
			return nil
		}
	},
}

// noteMissing prints a note for each piece of information that the servers did not provide.
func noteMissing(env *commands.Env, list []string) {
	for _, text := range list {
		env.Screen.Note("not reported: " + text)
	}
}
