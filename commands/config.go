package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// configAnswer returns the result of the commands config and reconfig. Its text form consists of
// head and config, the ensemble's configuration.
func configAnswer(head, config string, stat *render.Stat) render.Answer {
	return render.Answer{Words: head + config + "\n", Stat: stat, JSON: render.Facts{"config", config, "stat", stat}}
}

var configCommand = &Command{
	Name: "config", Group: "Ensemble", Effect: OneRequest, Args: "[-c] [-w] [-s]",
	Summary:  "print the ensemble's configuration",
	Help:     "With -c, config prints only the parts that a client needs: the version and the addresses.",
	Limits:   []string{"A stand-alone server has no configuration."},
	Examples: []string{"config -c", "config -s"},
	Passing:  watchPasses,
	Flags: func(fs *pflag.FlagSet) Run {
		client := fs.BoolP("client", "c", false, "print only the version and the addresses for clients")
		watch := fs.BoolP("watch", "w", false, "set a watch on the configuration")
		stat := fs.BoolP("stat", "s", false, "also print the configuration's stat")
		return func(ctx context.Context, env *Env, _ []string) error {
			node, err := zkconn.Do(ctx, env.Session.Absolute(), zkconn.GetData(zkconn.ConfigPath).Watch(*watch))
			if errors.Is(err, zkconn.NoNode) {
				err = fmt.Errorf("%w (config requires ZooKeeper 3.5 or later)", err)
			}
			config := string(node.Data)
			if *client {
				config = clientConfig(config)
			}
			return env.answer(err, configAnswer("", config, statIfWanted(*stat, node.Stat)))
		}
	},
}

// clientConfig extracts from a configuration what clients need, in the form "<version>
// host:port,host:port". It works like ZooKeeper's ConfigUtils.getClientConfigStr.
func clientConfig(config string) string {
	var version string
	var addrs []string
	for l := range strings.SplitSeq(config, "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		switch {
		case key == "version":
			version = value
		case strings.HasPrefix(key, "server."):
			if _, addr, ok := strings.Cut(value, ";"); ok {
				addrs = append(addrs, addr)
			}
		}
	}
	return version + " " + strings.Join(addrs, ",")
}

var reconfigCommand = &Command{
	Name: "reconfig", Group: "Ensemble", Effect: Writes,
	Args: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] |" +
		" [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
	Summary: "change the ensemble's members",
	Help: "-add and -remove change the current list of members; -members and -file replace it. The version is a hexadecimal " +
		"number, as printed by config.\n\n" +
		"The file contains lines such as config prints: server.N for each member, and group.N and weight.N if the ensemble " +
		"has groups. It replaces the groups and weights, too. reconfig ignores the line version, and rejects all other keys.",
	Examples: []string{"reconfig -remove 3", "reconfig -add server.4=zk4:2888:3888;2181"},
	Look:     func(*pflag.FlagSet, []string) string { return "config" },
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "also print the new configuration's stat")
		version := fs.StringP("version", "v", "", "change the configuration only if it has this `version`")
		file := fs.String("file", "", "replace all members with those in this `file`")
		FlagFile(fs, "file")
		members := fs.String("members", "", "replace all members with this `list`")
		add := fs.StringArray("add", nil, "add or change these `members`")
		remove := fs.StringArray("remove", nil, "remove the members with these `ids`")
		return func(ctx context.Context, env *Env, _ []string) error {
			r := zkconn.Reconfiguration{
				Joining: strings.ToLower(strings.Join(*add, ",")),
				Leaving: strings.ToLower(strings.Join(*remove, ",")),
				Members: strings.ToLower(*members),
				Version: -1,
			}
			some := r.Joining+r.Leaving != ""
			switch {
			case !some && r.Members == "" && *file == "":
				return Misuse("missing -add, -remove, -members or -file")
			case some && (r.Members != "" || *file != ""):
				return Misuse("Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)")
			case r.Members != "" && *file != "":
				return Misuse("Can't use -file and -members together (conflicting non-incremental modes)")
			}
			var err error
			if fs.Changed("version") {
				if r.Version, err = strconv.ParseInt(*version, 16, 64); err != nil {
					return Misuse("-v must be followed by a long (configuration version), not %q", *version)
				}
			}
			if *file != "" {
				if r.Members, err = readMembers(*file); err != nil {
					return err
				}
			}
			env.unrecorded("reconfig")
			node, err := zkconn.Do(ctx, env.Session, zkconn.Reconfig(r))
			return env.answer(err, configAnswer("Committed new configuration:\n", string(node.Data), statIfWanted(*stat, node.Stat)))
		}
	},
}
