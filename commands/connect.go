package commands

import (
	"context"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

var connectCommand = &Command{
	Name: "connect", Group: "Session", Effect: Offline, Args: "[host:port | @cluster]",
	Summary: "start a new session, on the same servers or on others",
	Help: "Specify the servers as for --server, or name a cluster from the configuration file. Without an argument, " +
		"connect starts a new session on the same servers.\n\n" +
		"connect closes the old session first. Its watches and credentials are not carried over. zksh's TLS options " +
		"still apply, unless you connect to a cluster, which has its own TLS settings.\n\n" +
		"Over TLS, connect prints the protocol, the cipher, the server's name and the expiry date of its " +
		"certificate. With Kerberos, it prints your principal, the server's, and the end of the ticket.",
	Examples: []string{"connect zk1:2181,zk2:2181/app", "connect @staging", "connect"},
	Params:   []Param{{Name: "host:port", Kind: Server, Optional: true}},
	Flags: NoFlags(func(ctx context.Context, env *Env, args []string) error {
		spec := strings.Join(args, "") // args has at most one element
		if spec != "" && !strings.HasPrefix(spec, zkconn.ClusterMark) {
			if _, err := zkconn.ParseServers(spec); err != nil {
				return Misuse("%s", err)
			}
		}
		if err := env.Session.Connect(ctx, spec); err != nil {
			return err
		}
		for _, remark := range env.Session.Secure().Remarks {
			env.Screen.Note(remark)
		}
		if err := env.Session.Ready(ctx); err != nil {
			return err
		}
		noteConnection(env)
		return env.Screen.Print(connectionAnswer(env.Session, "connect"))
	}),
}

// noteConnection prints remarks about the session's connection: the negotiated TLS parameters, if
// it uses TLS, and the identity of the client, if it uses Kerberos.
func noteConnection(env *Env) {
	info := env.Session.Info()
	if info.Agreed != nil {
		env.Screen.Note(info.Agreed.String())
	}
	if info.Identity != nil {
		env.Screen.Note(info.Identity.String())
	}
}

// CleanUp runs f, which closes a session or does other cleanup, with a time limit of three
// seconds. It runs f even if ctx has been cancelled, so that Ctrl-C does not interrupt the
// cleanup.
func CleanUp(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return f(ctx)
}

// cleanUpTimeout is the time limit of CleanUp.
const cleanUpTimeout = 3 * time.Second

// connectionAnswer returns the result of the commands connect and close. The result has only a JSON
// form, because zksh already prints the events of the session as text.
func connectionAnswer(s *zkconn.Session, cmd string) render.Answer {
	facts := render.Facts{"done", cmd, "server", s.Servers().Spec, "state", string(s.State())}
	if agreed := s.Info().Agreed; agreed != nil {
		facts = append(facts, "tls", agreed)
	}
	if id := s.Info().Identity; id != nil {
		facts = append(facts, "kerberos", id)
	}
	return render.Answer{JSON: facts}
}

var closeCommand = &Command{
	Name: "close", Group: "Session", Args: "",
	Summary:  "close the session, which deletes its ephemeral znodes",
	Examples: []string{"close"},
	Flags: NoFlags(func(ctx context.Context, env *Env, _ []string) error {
		return env.answer(CleanUp(ctx, env.Session.Close), connectionAnswer(env.Session, "close"))
	}),
}
