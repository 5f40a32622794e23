package zkconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// Writes is whether writes to an ensemble are allowed.
type Writes string

// The values of Writes.
const (
	WritesAllowed Writes = "allow"
	WritesAsk     Writes = "ask"   // the shell asks the user first
	WritesNever   Writes = "never" // requests that change znodes are not sent
)

// ErrNoWrites is the error of a write to an ensemble with WritesNever. Nothing was sent.
var ErrNoWrites = errors.New("writes are disabled")

// ClusterMark is the first character of a cluster's name, which can replace a connect string.
const ClusterMark = "@"

// forSpec returns the configuration for a session on the ensemble of spec, a connect string or a
// cluster. It returns c if spec is empty or names the current ensemble. Credentials, name and
// Writes of the current ensemble do not apply to another one.
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

// refuses returns ErrNoWrites if a request with this opcode must not be sent, and nil otherwise.
func (c Config) refuses(code int32) error {
	if c.Writes == WritesNever && jute.Writes(code) {
		return ErrNoWrites
	}
	return nil
}
