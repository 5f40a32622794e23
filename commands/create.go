package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
)

// maxTTL is the longest time to live that a server accepts, in ms (EphemeralType.TTL).
const maxTTL = 1<<40 - 1

var createCommand = &Command{
	Name: "create", Group: "Writing", Effect: Writes | OneRequest | Joins | Quotas,
	Except:  ByFlag(map[string]Effect{"parents": OneRequest | Joins, "container": OneRequest, "ttl": OneRequest}),
	Args:    "[-s] [-e] [-c] [-p] [-b] [-t ttl] path [data] [acl]",
	Summary: "create a znode",
	Help: "Without data, the znode contains null; \"\" is empty data.\n\n" +
		aclHelp +
		" Without an ACL, everyone has all permissions.",
	Limits: []string{"-t works only on servers that have extendedTypesEnabled=true."},
	Examples: []string{
		`create -s -e /app/worker- "host 1"`,
		`create -p /app/config "threads=4"`,
		`create /app/private "" auth::cdrwa`,
	},
	Params: []Param{pathParam, {Name: "data", Kind: Data, Optional: true}, {Name: "acl", Kind: ACL, Optional: true}},
	Flags: func(fs *pflag.FlagSet) Run {
		seq := fs.BoolP("sequential", "s", false, "append the parent's next sequence number to the name")
		eph := fs.BoolP("ephemeral", "e", false, "delete the znode when the session ends")
		container := fs.BoolP("container", "c", false, "let the server delete the znode when its last child is gone")
		parents := fs.BoolP("parents", "p", false, "create missing parents, without data and with all permissions for everyone")
		b64 := fs.BoolP("base64", "b", false, "decode the data from base64")
		var ttl int64
		fs.VarP(integer(&ttl, 64, "-t argument must be a long value"), "ttl", "t",
			"let the server delete the znode when it has had no changes and no children for this many milliseconds")
		return func(ctx context.Context, env *Env, args []string) error {
			mode := zkconn.CreateMode{Ephemeral: *eph, Sequential: *seq, Container: *container, TTL: time.Duration(ttl) * time.Millisecond}
			if err := checkMode(mode, fs.Changed("ttl"), ttl); err != nil {
				return err
			}
			var data []byte
			if len(args) > 1 {
				data = []byte(args[1])
			}
			var err error
			if *b64 {
				if data, err = decodeBase64(string(data)); err != nil {
					return Misuse("the data is not valid base64: %s", err)
				}
			}
			acl := zkconn.OpenACL()
			if len(args) > 2 {
				acl, err = ParseACL(args[2])
				switch {
				case err != nil && !strings.Contains(args[2], ":"):
					return Misuse("%s; quote data that contains spaces", err)
				case err != nil:
					return Misuse("%s", err)
				}
			}
			if err := guardQuota(env, args[0], data); err != nil {
				return err
			}
			create := env.Session.Create
			if *parents {
				create = withParents{env.Session.Client}.Create
			}
			path, err := create(ctx, args[0], data, acl, mode)
			if errors.Is(err, zkconn.LocalSession) {
				env.Screen.Note("Unable to create ephemeral node on a local session")
			}
			if err == nil {
				noteNoHash(env, acl)
			}
			return env.answer(err, render.Answer{Words: "Created " + path + "\n", JSON: render.Facts{"created", path}})
		}
	},
}

func checkMode(m zkconn.CreateMode, hasTTL bool, ttl int64) error {
	switch {
	case m.Container && (m.Ephemeral || m.Sequential):
		return Misuse("-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.")
	case hasTTL && m.Ephemeral:
		return Misuse("TTLs cannot be used with Ephemeral znodes")
	case hasTTL && m.Container:
		return Misuse("TTLs cannot be used with Container znodes")
	case hasTTL && (ttl <= 0 || ttl > maxTTL):
		return Misuse("ttl must be positive and cannot be larger than: %d", int64(maxTTL))
	}
	return nil
}

// withParents is a Client that creates missing parents.
type withParents struct{ zkconn.Client }

// Create creates a znode and its missing parents. If the znode was certainly not created, it
// deletes the parents that it created.
func (c withParents) Create(
	ctx context.Context, path string, data []byte, acl []zk.ACL, mode zkconn.CreateMode,
) (string, error) {
	made, err := c.Client.Create(ctx, path, data, acl, mode)
	if !errors.Is(err, zkconn.NoNode) {
		return made, err
	}
	var created []string
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		switch _, err := c.Client.Create(ctx, path[:i], nil, zkconn.OpenACL(), zkconn.CreateMode{}); {
		case err == nil:
			created = append(created, path[:i])
		case !errors.Is(err, zkconn.NodeExists):
			return "", errors.Join(err, removeCreated(ctx, c.Client, created))
		}
	}
	trip := zkconn.NewTrip()
	trip.Alone = true
	made, err = c.Client.Create(trip.Context(ctx), path, data, acl, mode)
	if err != nil && !trip.Outcome.MayHaveHappened() {
		return "", errors.Join(err, removeCreated(ctx, c.Client, created))
	}
	return made, err
}

// removeCreated deletes parents that were created in vain, except those that others use by now.
func removeCreated(ctx context.Context, c zkconn.Client, created []string) error {
	return CleanUp(ctx, func(ctx context.Context) error {
		for _, path := range slices.Backward(created) {
			err := ignore(c.Delete(ctx, path, 0), zkconn.NotEmpty, zkconn.NoNode, zkconn.BadVersion)
			if err != nil {
				return fmt.Errorf("cannot delete a parent znode that zksh created and no longer needs: %w", err)
			}
		}
		return nil
	})
}
