package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

var sessionCommand = &commands.Command{
	Name: "session", Group: ensembleGroup, Args: "[id | address | path]",
	Summary: "show a session's client, znodes, watches and locks",
	Help: "Without an argument, session shows this shell's own session. With an id (0x…, as printed by " +
		"locks and stat), it shows that session. With an address (host:port, or only the host if a single client " +
		"runs there), it shows the session of that client. With the path of an ephemeral znode, it shows the session " +
		"that owns the znode.\n\n" +
		"session queries every server with the four-letter commands cons, dump, wchc and conf. If a server does not " +
		"provide some of the information, session lists the missing parts and the server settings that make them " +
		"available.",
	Limits: []string{
		"Identities are shown only for this shell's own session.",
		"Servers do not report watches on children.",
	},
	Examples: []string{
		"session /locks/backup/_c_1b7a6e8c-0a53-4a2e-9d0f-6a1c1f3f2b11-lock-0000000000",
		"session",
		"session 0x1a1fe2ecb8d0001",
	},
	Params: []commands.Param{{Name: "id, address or path", Kind: commands.ClientID, Optional: true}},
	Flags: commands.NoFlags(func(ctx context.Context, env *commands.Env, args []string) error {
		if err := ready(ctx, env.Session); err != nil {
			return err
		}
		own := env.Session.Info().ID
		id, client := own, ""
		if len(args) > 0 {
			var err error
			if id, client, err = whichSession(ctx, env, args[0]); err != nil {
				return err
			}
		}
		s, err := queue.LookSession(ctx, ensemble{env.Session}, id, client)
		if err != nil {
			return err
		}
		if id == own {
			ids, err := identities(ctx, env)
			if err != nil {
				s.NotTold = append(s.NotTold, "identities: "+err.Error())
			}
			for _, i := range ids {
				s.Identities = append(s.Identities, i.Scheme+": "+i.User)
			}
		}
		if err := env.Screen.Print(s); err != nil {
			return err
		}
		noteMissing(env, s.NotTold)
		return nil
	}),
}

// identities returns the identities with which this session is authenticated. If the server is
// too old to support the request, identities returns an error without sending it, because the
// server would close the connection.
func identities(ctx context.Context, env *commands.Env) ([]zkconn.Identity, error) {
	p, err := env.Session.Pipe(ctx, "")
	if err == nil && p.KnownOlder(ctx, 7) {
		err = errors.New("whoami needs ZooKeeper 3.7 or later")
	}
	if err != nil {
		return nil, err
	}
	return zkconn.Do(ctx, env.Session, zkconn.WhoAmI())
}

// whichSession finds out which session the user means by target. If target is the path of an
// ephemeral znode, id is the session that owns the znode. If target is a session id, id is that
// session. Otherwise, client is target, the address of a client.
func whichSession(ctx context.Context, env *commands.Env, target string) (id int64, client string, err error) {
	if strings.HasPrefix(target, "/") {
		stat, err := zkconn.Do(ctx, env.Session, zkconn.Exists(target))
		if err != nil {
			return 0, "", err
		}
		if n, ok := zklock.ParseName(path.Base(target)); ok && n.Permanent {
			return 0, "", fmt.Errorf("the znode %s belongs to the owner of a lock, not to a session; to see the owner, run: locks %s", target, path.Dir(target))
		}
		if stat.EphemeralOwner == 0 {
			return 0, "", fmt.Errorf("the znode %s is not ephemeral, so no session owns it", target)
		}
		return stat.EphemeralOwner, "", nil
	}
	if digits, ok := strings.CutPrefix(target, "0x"); ok {
		n, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || n == 0 {
			return 0, "", commands.Misuse("invalid session id %q: an id has the form 0x1a1fe2ecb8d0001", target)
		}
		return int64(n), "", nil
	}
	return 0, target, nil
}
