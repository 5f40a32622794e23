package commands

import (
	"context"
	"fmt"
	"io"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

func sessionCommands() []*Command {
	return []*Command{connectCommand(), closeCommand(), syncCommand(), whoamiCommand(), versionCommand()}
}

func connectCommand() *Command {
	c := &Command{
		Name: "connect", Group: "Session", Args: "[host:port]",
		Summary: "start a new session, here or with another ensemble",
		Help: "Takes the same connect string as -server, and the present one when left out. The present session is closed first;" +
			" its watches and credentials stay behind.",
		Example: "connect zk1:2181,zk2:2181/app",
		Params:  []Param{{Name: "host:port", Kind: Server, Optional: true}},
		Offline: true,
	}
	c.Flags = NoFlags(func(ctx context.Context, env *Env, args []string) error {
		if spec := arg(args, 0); spec != "" {
			if _, err := zkconn.ParseServers(spec); err != nil {
				return c.misuse("%s", err)
			}
		}
		if err := closing(ctx, func(ctx context.Context) error { return env.Session.Connect(ctx, arg(args, 0)) }); err != nil {
			return err
		}
		if err := env.Session.Ready(ctx); err != nil {
			return err
		}
		return env.Screen.Print(connection(env.Session, "connect"))
	})
	return c
}

// closing bounds the end of a session, also after Ctrl-C: half a close is none.
func closing(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	return f(ctx)
}

// connected is the answer of connect and close, which has no text.
type connected struct {
	Done   string `json:"done"`
	Server string `json:"server"`
	State  string `json:"state"`
}

// Text is empty: the session's events tell.
func (connected) Text(io.Writer) error { return nil }

func connection(s *zkconn.Session, cmd string) connected {
	return connected{cmd, s.Servers().Spec, string(s.State())}
}

func closeCommand() *Command {
	return &Command{
		Name: "close", Group: "Session", Args: "",
		Summary: "close the session; its ephemeral znodes vanish",
		Example: "close",
		Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
			if err := closing(ctx, env.Session.Close); err != nil {
				return err
			}
			return env.Screen.Print(connection(env.Session, "close"))
		}),
	}
}

// line is an answer of one line of text.
type line struct {
	text  string
	value any // its JSON form
}

// Text is the line.
func (l line) Text(w io.Writer) error {
	_, err := io.WriteString(w, l.text+"\n")
	return err
}

// MarshalJSON is the value.
func (l line) MarshalJSON() ([]byte, error) { return render.Marshal(l.value) }

func syncCommand() *Command {
	return &Command{
		Name: "sync", Group: "Session", Args: "path",
		Summary: "wait until the server has caught up with the leader",
		Example: "sync /",
		Params:  []Param{pathParam},
		Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
			if err := env.Session.Sync(ctx, args[0]); err != nil {
				return err
			}
			return env.Screen.Print(line{"Sync is OK", done{"sync", args[0]}})
		}),
	}
}

// identities is the answer of whoami.
type identities []zkconn.Identity

// Text is zkCli's list with its heading.
func (ids identities) Text(w io.Writer) error {
	if _, err := io.WriteString(w, "Auth scheme: User\n"); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := fmt.Fprintf(w, "%s: %s\n", id.Scheme, id.User); err != nil {
			return err
		}
	}
	return nil
}

// Table has a row for each authentication.
func (ids identities) Table() render.Grid {
	g := render.Grid{Header: []string{"scheme", "user"}}
	for _, id := range ids {
		g.Rows = append(g.Rows, []string{id.Scheme, id.User})
	}
	return g
}

func whoamiCommand() *Command {
	return &Command{
		Name: "whoami", Group: "Session", Args: "",
		Summary: "print whom the session is authenticated as",
		Help:    "Servers from 3.7 on.",
		Example: "whoami",
		Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
			ids, err := env.Session.WhoAmI(ctx)
			if err != nil {
				return err
			}
			return env.Screen.Print(identities(ids))
		}),
	}
}

func versionCommand() *Command {
	return &Command{
		Name: "version", Group: "Session", Args: "",
		Summary: "print the version of zksh",
		Example: "version",
		Offline: true,
		Flags: NoFlags(func(_ context.Context, env *Env, _ []string) error {
			return env.Screen.Print(line{"zksh version: " + env.Version, struct {
				Version string `json:"version"`
			}{env.Version}})
		}),
	}
}
