package commands

import (
	"context"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var connectCommand = &Command{
	Name: "connect", Group: "Session", Args: "[host:port]",
	Summary: "start a new session, here or with another ensemble",
	Help: "Takes the same connect string as -server, and the present one when left out. The present session is closed first;" +
		" its watches and credentials stay behind.",
	Example: "connect zk1:2181,zk2:2181/app",
	Params:  []Param{{Name: "host:port", Kind: Data, Optional: true}},
	Offline: true,
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		spec := strings.Join(args, "") // one word, or none
		if spec != "" {
			if _, err := zkconn.ParseServers(spec); err != nil {
				return Misuse("%s", err)
			}
		}
		if err := closing(ctx, func(ctx context.Context) error { return env.Session.Connect(ctx, spec) }); err != nil {
			return err
		}
		return env.answer(env.Session.Ready(ctx), connection(env.Session, "connect"))
	}),
}

// closing bounds the end of a session, also after Ctrl-C: half a close is none.
func closing(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	return f(ctx)
}

// connection is the answer of connect and close, which has no text: the session's
// events tell.
func connection(s *zkconn.Session, cmd string) render.Answer {
	return render.Answer{JSON: render.Facts{"done", cmd, "server", s.Servers().Spec, "state", string(s.State())}}
}

var closeCommand = &Command{
	Name: "close", Group: "Session", Args: "",
	Summary: "close the session; its ephemeral znodes vanish",
	Example: "close",
	Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
		return env.answer(closing(ctx, env.Session.Close), connection(env.Session, "close"))
	}),
}

var syncCommand = &Command{
	Name: "sync", Group: "Session", Args: "path",
	Summary: "wait until the server has caught up with the leader",
	Example: "sync /",
	Params:  []Param{pathParam},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		return env.answer(env.Session.Sync(ctx, args[0]), render.Answer{Words: "Sync is OK\n", JSON: done("sync", args[0])})
	}),
}

var whoamiCommand = &Command{
	Name: "whoami", Group: "Session", Args: "",
	Summary: "print whom the session is authenticated as",
	Help:    "Servers from 3.7 on.",
	Example: "whoami",
	Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
		ids, err := env.Session.WhoAmI(ctx)
		answer := render.Answer{Words: "Auth scheme: User\n", Grid: render.Grid{Header: []string{"scheme", "user"}}, JSON: ids}
		for _, id := range ids {
			answer.Words += id.Scheme + ": " + id.User + "\n"
			answer.Grid.Rows = append(answer.Grid.Rows, []string{id.Scheme, id.User})
		}
		return env.answer(err, answer)
	}),
}

var versionCommand = &Command{
	Name: "version", Group: "Session", Args: "",
	Summary: "print the version of zksh",
	Example: "version",
	Offline: true,
	Flags: NoFlags(func(_ context.Context, env *Env, _ []string) error {
		return env.Screen.Print(render.Answer{
			Words: "zksh version: " + env.Version + "\n", JSON: render.Facts{"version", env.Version}})
	}),
}
