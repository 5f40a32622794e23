package commands

import (
	"context"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var addauthCommand = &Command{
	Name: "addauth", Group: "Access", Args: "scheme auth",
	Summary: "authenticate the session",
	Help: "zksh uses the credential only for the ensemble that you are connected to. zksh sends the credential again " +
		"after a reconnect, but never sends it to another ensemble and never writes it to the history. If you type " +
		"addauth digest at the prompt without a credential, zksh asks for the credential and hides what you type.\n\n" +
		"If the server rejects the credential, it ends the session. To start another session, run connect.",
	Examples: []string{"addauth digest user:password", "addauth digest"},
	Params:   []Param{{Name: "scheme", Kind: Scheme}, {Name: "auth", Kind: Secret, Optional: true}},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		var auth []byte
		switch {
		case len(args) > 1:
			auth = []byte(args[1])
		case args[0] == "digest" && env.Mode == ByHand:
			answer, err := env.Screen.AskSecret(ctx, "user:password (not shown): ")
			if err != nil {
				return err
			}
			if auth = []byte(answer); len(auth) == 0 {
				return Misuse("missing auth")
			}
		case args[0] == "digest":
			return Misuse("missing auth")
		}
		return env.answer(env.Session.AddAuth(ctx, args[0], auth), render.Answer{JSON: render.Facts{"done", "addauth"}})
	}),
}

var whoamiCommand = &Command{
	Name: "whoami", Group: "Session", Args: "",
	Summary:  "print the identities that the session authenticated as",
	Limits:   []string{"whoami needs ZooKeeper 3.7 or later."},
	Examples: []string{"whoami"},
	Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
		ids, err := zkconn.Do(ctx, env.Session, zkconn.WhoAmI())
		answer := render.Answer{Words: "Auth scheme: User\n", Grid: render.Grid{Header: []string{"scheme", "user"}}, JSON: ids}
		for _, id := range ids {
			answer.Words += id.Scheme + ": " + id.User + "\n"
			answer.Grid.Rows = append(answer.Grid.Rows, []string{id.Scheme, id.User})
		}
		return env.answer(err, answer)
	}),
}
