// Package peer tells from an error what has become of who is at the other end of a
// connection or a pipe, for which each system has numbers of its own.
package peer

import (
	"errors"
	"slices"
)

// Refused reports whether nobody listens where a connection was to go.
func Refused(err error) bool { return isOne(err, refused) }

// Cut reports whether the other end of a connection went away before it had taken or sent all.
func Cut(err error) bool { return isOne(err, cut) }

// Unread reports whether nobody reads any more what is written to a pipe. A connection that
// was cut may look like it: whoever writes to the one and reads from the other has to know
// them apart.
func Unread(err error) bool { return isOne(err, unread) }

func isOne(err error, of []error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}
