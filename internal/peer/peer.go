// Package peer tells from an error what has become of who is at the other end of a
// connection or a pipe, for which each system has numbers of its own.
package peer

import (
	"errors"
	"slices"
)

// Refused tells whether nobody listens where a connection was to go.
func Refused(err error) bool { return isOne(err, refused) }

// Gone tells whether the other end went away before it had taken or sent all.
func Gone(err error) bool { return isOne(err, gone) }

func isOne(err error, of []error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}
