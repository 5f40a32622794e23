package commands

import (
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/zkconn"
)

// explain adds to the error of a line that writes what its user needs next: the version that the
// znode has or, after a connection loss, whether the line may have changed something, and how to
// find out. written is the outcome of all writes of the line.
func (l Line) explain(ctx context.Context, env *Env, err error, written zkconn.Outcome) error {
	lost := errors.Is(err, zkconn.ConnectionLoss)
	if written.Unknown > 0 || lost && (written.Done > 0 || !saysUnsent(err)) {
		return &LossError{Err: err, Written: written, look: l.c.Look(l.flags, l.args)}
	}
	if env.Mode == Batch && l.Has(OneRequest) {
		return err // later lines may be in flight and change the version; the message must not depend on that
	}
	return WithActualVersion(ctx, env, err)
}

// saysUnsent reports whether the text of err already says that nothing was sent to a server.
func saysUnsent(err error) bool {
	return errors.As(err, new(*zkconn.UnsentError)) || errors.As(err, new(*zkconn.NoServerError))
}

// A LossError reports that a line which writes got no answer to one of its requests.
type LossError struct {
	Err     error          // error of the request
	Written zkconn.Outcome // outcome of all writes of the line
	look    string         // line that shows what took effect
}

func (e *LossError) Error() string {
	switch {
	case !e.Written.MayHaveHappened():
		return e.Err.Error() + "; nothing was written"
	case e.Written.Done == 0:
		return e.Err.Error() + "; to see whether it took effect, run: " + e.look
	}
	return e.Err.Error() + "; to see what took effect, run: " + e.look
}

// Unwrap returns the error of the request.
func (e *LossError) Unwrap() error { return e.Err }

// WithActualVersion adds the version that the znode has to the error of a write that required
// another version. It returns the error unchanged if it cannot read the version, and for a line of a
// transaction, because commit adds the version to its own error.
func WithActualVersion(ctx context.Context, env *Env, err error) error {
	e, ok := err.(*zkconn.Error)
	trip := zkconn.TripOf(ctx)
	if !ok || e.Versions == nil || e.Versions.Known || trip != nil && !trip.Alone {
		return err
	}
	ctx, cancel := context.WithTimeout(zkconn.Apart(ctx), versionTimeout)
	defer cancel()
	actual, readErr := readVersion(ctx, env, e.Path, e.Versions.Of)
	if readErr != nil || actual == e.Versions.Expected { // another client has changed it again
		return err
	}
	return e.WithActual(actual)
}

// versionTimeout is the time limit for reading the version for an error message.
const versionTimeout = 3 * time.Second

func readVersion(ctx context.Context, env *Env, path string, of zkconn.VersionKind) (int64, error) {
	if of == zkconn.ConfigVersion {
		node, err := zkconn.Do(ctx, env.Session.Absolute(), zkconn.GetData(zkconn.ConfigPath))
		if err != nil {
			return 0, err
		}
		version, _, _ := strings.Cut(clientConfig(string(node.Data)), " ")
		return strconv.ParseInt(version, 16, 64)
	}
	stat, err := zkconn.Do(ctx, env.Session, zkconn.Exists(path))
	if err != nil {
		return 0, err
	}
	if of == zkconn.ACLVersion {
		return int64(stat.Aversion), nil
	}
	return int64(stat.Version), nil
}

// lookWith returns a function for the field Command.Look. The line that it returns consists of
// command and the path of the znode.
func lookWith(command string) func(*pflag.FlagSet, []string) string {
	return func(_ *pflag.FlagSet, args []string) string { return command + " " + Quote(args[0]) }
}

// lookForCreated is the function Command.Look of create. The name of a sequential znode is unknown.
func lookForCreated(fs *pflag.FlagSet, args []string) string {
	if fs.Changed("sequential") {
		return "ls " + Quote(path.Dir(args[0]))
	}
	return "exists " + Quote(args[0])
}
