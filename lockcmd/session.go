package lockcmd

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/cluster"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/zklock"
)

var sessionCommand = &commands.Command{
	Name: "session", Group: ensembleGroup, Args: "[id | path]",
	Summary: "show a session's client and ephemeral znodes",
	Help: "Without an argument, session shows this shell's own session. With an id (0x…, as printed by " +
		"locks and stat), it shows that session. With the path of an ephemeral znode, it shows the session " +
		"that owns the znode.\n\n" +
		"session queries every server with the four-letter commands cons and dump. If a server does not " +
		"provide some of the information, session lists the missing parts and the server settings that make them " +
		"available.",
	Limits: []string{"The time until a session expires is known only if the leader can be queried."},
	Examples: []string{
		"session /locks/backup/_c_1b7a6e8c-0a53-4a2e-9d0f-6a1c1f3f2b11-lock-0000000000",
		"session",
		"session 0x1a1fe2ecb8d0001",
	},
	Params: []commands.Param{{Name: "id or path", Kind: commands.SessionID, Optional: true}},
	Flags: commands.NoFlags(func(ctx context.Context, env *commands.Env, args []string) error {
		if err := ready(ctx, env.Session); err != nil {
			return err
		}
		id := env.Session.Info().ID
		if len(args) > 0 {
			var err error
			if id, err = whichSession(ctx, env, args[0]); err != nil {
				return err
			}
		}
		s, err := cluster.FindSession(ctx, ensemble{env.Session}, id)
		if err != nil {
			return err
		}
		if err := env.Screen.Print(s); err != nil {
			return err
		}
		noteMissing(env, s.NotTold)
		return nil
	}),
}

// whichSession returns the session that the user specified with target: a session id, or the path
// of an ephemeral znode of the session.
func whichSession(ctx context.Context, env *commands.Env, target string) (int64, error) {
	if !strings.HasPrefix(target, "/") {
		digits, ok := strings.CutPrefix(target, "0x")
		n, err := strconv.ParseUint(digits, 16, 64)
		if !ok || err != nil || n == 0 {
			return 0, commands.Misuse("invalid session %q: write an id such as 0x1a1fe2ecb8d0001, or the path of an ephemeral znode", target)
		}
		return int64(n), nil
	}
	stat, err := zkconn.Do(ctx, env.Session, zkconn.Exists(target))
	if err != nil {
		return 0, err
	}
	if n, ok := zklock.ParseName(path.Base(target)); ok && n.Permanent {
		return 0, fmt.Errorf("the znode %s belongs to the owner of a lock, not to a session; to see the owner, run: locks %s", target, path.Dir(target))
	}
	if stat.EphemeralOwner == 0 {
		return 0, fmt.Errorf("the znode %s is not ephemeral, so no session owns it", target)
	}
	return stat.EphemeralOwner, nil
}
