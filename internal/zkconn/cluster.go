package zkconn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// Writes is the setting that determines whether zksh may write to an ensemble.
type Writes string

// The values of type Writes.
const (
	WritesAllowed Writes = "allow"
	WritesAsk     Writes = "ask"   // the shell asks the user before it sends a write
	WritesNever   Writes = "never" // zksh does not send requests that change znodes
)

// ErrNoWrites is the error of a write that was not sent, because the setting of the ensemble is
// WritesNever.
var ErrNoWrites = errors.New("writes are disabled")

// ClusterMark is the first character of every cluster name. A cluster name can be used in place
// of a connect string.
const ClusterMark = "@"

// names reports whether spec names the ensemble of c: by its cluster name, or, if it has none, by
// its connect string.
func (c Config) names(spec string) bool {
	if c.Cluster != "" {
		return spec == c.Cluster
	}
	return spec == c.Servers
}

// sameEnsemble reports whether two configurations name the same ensemble in the same way.
func (c Config) sameEnsemble(d Config) bool {
	return c.Cluster == d.Cluster && c.Servers == d.Servers
}

// forSpec returns the configuration for a session on the ensemble that spec names, a connect string
// or a cluster name. If spec is empty or names the current ensemble, this is c. Otherwise, the
// credentials, Cluster and Writes of the current ensemble do not apply.
func (c Config) forSpec(ctx context.Context, spec string) (next Config, err error) {
	next = c
	switch {
	case spec == "" || c.names(spec):
	case c.Resolve != nil:
		if next, err = c.Resolve(ctx, spec); err != nil {
			return c, err
		}
		next.NoEvents, next.WaitOnce, next.dial, next.waiting = c.NoEvents, c.WaitOnce, c.dial, c.waiting
	case strings.HasPrefix(spec, ClusterMark):
		return c, fmt.Errorf("unknown cluster %s", spec)
	default:
		next.Servers, next.Auth, next.Secure.SASL = spec, nil, nil
	}
	return next, err
}

// refuses returns ErrNoWrites if the configuration forbids requests with the given opcode, and nil
// otherwise.
func (c Config) refuses(code int32) error {
	if c.Writes == WritesNever && jute.Writes(code) {
		return ErrNoWrites
	}
	return nil
}
