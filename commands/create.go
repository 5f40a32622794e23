package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktree"
)

// maxTTL is the longest time to live that a server accepts, in milliseconds (EphemeralType.TTL).
const maxTTL = 1<<40 - 1

var createCommand = &Command{
	Name: "create", Group: "Writing", Effect: Writes | OneRequest | Joins | Quotas,
	Except: ByFlag(map[string]Effect{
		"parents": OneRequest | Joins, "container": OneRequest, "ttl": OneRequest, "file": OneRequest,
	}),
	Args:    "[-s] [-e] [-c] [-p] [-b] [-t ttl] [-f file] path [data] [acl]",
	Summary: "create a znode",
	Help: "Without data, the znode contains null; \"\" is empty data. With -f, create reads the data from a file. " +
		"With -f -, create reads the data from standard input.\n\n" +
		aclHelp +
		" Without an ACL, everyone has all permissions.",
	Limits: []string{
		"-t works only on servers that have extendedTypesEnabled=true.",
		"-f - works only if create is on zksh's own command line: zksh create -f - /app < FILE.",
		"zksh create -e, as a single command, deletes the znode at once, because its session ends with the command.",
	},
	Examples: []string{
		`create -s -e /app/worker- "host 1"`,
		`create -p /app/config "threads=4"`,
		`create /app/private "" auth::cdrwa`,
		`create -f config.json /app/config`,
	},
	Params: []Param{{Name: "path", Kind: Path, Slash: appendsNumber}, {Name: "data", Kind: Data, Optional: true},
		{Name: "acl", Kind: ACL, Optional: true}},
	Look:    lookForCreated,
	Passing: ephemeralPasses,
	Flags: func(fs *pflag.FlagSet) Run {
		seq := fs.BoolP("sequential", "s", false, "append the parent's next sequence number to the name")
		eph := fs.BoolP("ephemeral", "e", false, "delete the znode when the session ends")
		container := fs.BoolP("container", "c", false, "let the server delete the znode when its last child is gone")
		parents := fs.BoolP("parents", "p", false, "create missing parents, without data and with all permissions for everyone")
		source := newDataFlags(fs)
		var ttl int64
		fs.VarP(integer(&ttl, 64, "-t argument must be a long value"), "ttl", "t",
			"let the server delete the znode when it has had no changes and no children for this many milliseconds")
		return func(ctx context.Context, env *Env, args []string) error {
			mode := zkconn.CreateMode{Ephemeral: *eph, Sequential: *seq, Container: *container, TTL: time.Duration(ttl) * time.Millisecond}
			if err := checkMode(mode, fs.Changed("ttl"), ttl); err != nil {
				return err
			}
			if source.fromFile() {
				if len(args) > 2 {
					return Misuse("unexpected word %q: the data is already given by -f", args[1])
				}
				args = withoutData(args)
			}
			data, err := source.read(ctx, env, args[1:])
			if err != nil {
				return err
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
			noteNoHash(env, acl)
			var made zkconn.Written
			z := newZnode{args[0], data, acl, mode}
			err = env.Record(ctx, "create", args[0], func(ctx context.Context, rec zktree.Recorder) (err error) {
				made, err = z.create(ctx, env.Session, rec)
				if *parents && errors.Is(err, zkconn.NoNode) {
					made, err = z.createBelow(ctx, env.Session, rec)
				}
				return err
			})
			if e, ok := err.(*zkconn.Error); ok && e.Code == zkconn.NoNode && e.Chroot == "" && !*parents {
				err = e.WithHint("-p creates missing parents")
			}
			if errors.Is(err, zkconn.LocalSession) {
				env.Screen.Note("Unable to create ephemeral node on a local session")
			}
			return env.answer(err, render.Answer{Words: "Created " + made.Path() + "\n", JSON: render.Facts{"created", made.Path()}})
		}
	},
}

// appendsNumber reports whether the server appends a number to the path, which can then end with a slash.
func appendsNumber(flags *pflag.FlagSet) bool { return flags.Changed("sequential") }

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

// createBelow creates the missing ancestors of z, and then z itself. If z is known not to have been
// created, createBelow deletes the ancestors that it created.
func (z newZnode) createBelow(
	ctx context.Context, s *zkconn.Session, rec zktree.Recorder,
) (none zkconn.Written, err error) {
	var created []string
	for i := 1; i < len(z.path); i++ {
		if z.path[i] != '/' {
			continue
		}
		switch _, err := (newZnode{path: z.path[:i], acl: zkconn.OpenACL()}).create(ctx, s, rec); {
		case err == nil:
			created = append(created, z.path[:i])
		case !errors.Is(err, zkconn.NodeExists):
			return none, errors.Join(err, removeCreated(ctx, s, rec, created))
		}
	}
	trip := zkconn.NewTrip()
	trip.Alone = true
	made, err := z.create(trip.Context(ctx), s, rec)
	if err != nil && !trip.Outcome.MayHaveHappened() {
		return none, errors.Join(err, removeCreated(ctx, s, rec, created))
	}
	return made, err
}

// removeCreated deletes the ancestors that createBelow created before op failed. It keeps an
// ancestor to which another client has added children or written data.
func removeCreated(ctx context.Context, s *zkconn.Session, rec zktree.Recorder, created []string) error {
	return CleanUp(ctx, func(ctx context.Context) error {
		for _, path := range slices.Backward(created) {
			image := &zktree.Image{Edit: &zktree.Edit{Does: zktree.Deletes, Path: path}} // there is no state to save
			err := zktree.Alone(ctx, rec, image, func(ctx context.Context) (zktree.Result, error) {
				return zktree.Result{}, zkconn.Exec(ctx, s, zkconn.Delete(path, 0))
			})
			if err = ignore(err, zkconn.NotEmpty, zkconn.NoNode, zkconn.BadVersion); err != nil {
				return fmt.Errorf("cannot delete a parent znode that zksh created and no longer needs: %w", err)
			}
		}
		return nil
	})
}
