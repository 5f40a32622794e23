package zkconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// Writes says whether an ensemble may be written to.
type Writes string

// What may be written.
const (
	WritesAllowed Writes = "allow"
	WritesAsk     Writes = "ask"   // the shell asks a person first
	WritesNever   Writes = "never" // no request that changes a znode is sent
)

// ErrNoWrites is the error of a request that would change a znode of an ensemble
// that is not to be written to. Nothing was sent.
var ErrNoWrites = errors.New("writes are disabled")

// ClusterMark begins the name of a cluster, where a connect string could stand.
const ClusterMark = "@"

// to is the configuration for a session with another ensemble, or with the same
// one if spec is empty or says nothing else. What belongs to one ensemble is not
// carried to another: its credentials, its name, whether it may be written to.
func (c Config) forSpec(spec string) (Config, error) {
	if spec == "" || spec == c.Cluster || c.Cluster == "" && spec == c.Servers {
		return c, nil
	}
	next := c
	switch {
	case c.Resolve != nil:
		var err error
		if next, err = c.Resolve(spec); err != nil {
			return c, err
		}
		next.NoEvents, next.WaitOnce, next.dial, next.tap, next.waiting = c.NoEvents, c.WaitOnce, c.dial, c.tap, c.waiting
	case strings.HasPrefix(spec, ClusterMark):
		return c, fmt.Errorf("unknown cluster %s", spec)
	default:
		next.Servers, next.Auth, next.Secure.SASL = spec, nil, nil
	}
	return next, nil
}

// refuses is an error if a request is not to be sent for what it would do.
func (c Config) refuses(code int32) error {
	if c.Writes == WritesNever && jute.Writes(code) {
		return ErrNoWrites
	}
	return nil
}
