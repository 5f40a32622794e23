package commands

import (
	"context"
	"errors"
	"strings"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
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
	Passing:  authPasses,
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

var digestCommand = &Command{
	Name: "digest", Group: "Access", Effect: Offline, Args: "user",
	Summary: "print the digest of a user and a password, for ACLs",
	Help: "digest asks for the password twice, hides what you type, and prints user:hash. It needs no server. To grant " +
		"that user access to a znode, use the result in an ACL: setAcl /app digest:USER:HASH:cdrwa.\n\n" +
		"If standard input is not a terminal, digest reads the password from there: zksh digest ann < FILE. It ignores " +
		"the line break at the end.",
	Limits: []string{
		"A script cannot contain digest, because its password must not be in the script. Run zksh digest instead.",
		"The hash has no salt. Anybody who may read it, for example with getAcl, can try out passwords, so use a long random password.",
	},
	Examples: []string{"digest ann", "digest backup"},
	// The kind Secret keeps a password that was typed behind the user out of error messages.
	Params: []Param{{Name: "user", Kind: Secret}},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		user := args[0]
		if user == "" || strings.Contains(user, ":") {
			return Misuse("the user must not be empty or contain a colon; digest asks for the password separately")
		}
		password, err := readPassword(ctx, env, user)
		if err != nil {
			return err
		}
		digest := zkconn.Digest(user + ":" + password)
		return env.Screen.Print(render.Answer{Words: digest + "\n", Grid: oneColumn("digest", []string{digest}), JSON: render.Facts{"user", user, "digest", digest}})
	}),
}

// readPassword asks the user twice for a new password. If standard input of a single command is
// not a terminal, readPassword reads the password from there instead.
func readPassword(ctx context.Context, env *Env, user string) (password string, err error) {
	if env.Mode == ByHand || env.Mode == OneShot && env.Streams.In != nil && tty.Is(env.Streams.In) {
		password, err = env.Screen.AskSecret(ctx, "password of "+user+" (not shown): ")
		if err == nil && password != "" {
			var again string
			again, err = env.Screen.AskSecret(ctx, "the same password again: ")
			if err == nil && again != password {
				err = errors.New("the two passwords differ; run digest again")
			}
		}
	} else if env.Stdin == nil {
		err = Misuse("a script cannot contain the password; run digest as a single command: zksh digest USER < FILE")
	} else {
		var data []byte
		data, err = LoadFile(ctx, env, "-")
		password = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	}
	switch {
	case err != nil:
		return "", err
	case password == "":
		return "", errors.New("the password is empty")
	case strings.ContainsAny(password, "\r\n"):
		return "", errors.New("the password has more than one line; standard input must contain only the password")
	}
	return password, nil
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
