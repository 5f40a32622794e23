// Package peer classifies errors about the other end of a connection or pipe: a refused connection,
// a lost connection, and a pipe that nobody reads. Each operating system has its own error numbers
// for these. Printable makes text from the other end safe to print.
package peer

import (
	"errors"
	"slices"
)

// Refused reports whether a connection failed because no program listens at the address.
func Refused(err error) bool { return isOne(err, refused) }

// Cut reports whether an established connection was lost because the other end reset it.
func Cut(err error) bool { return isOne(err, cut) }

// Unread reports whether a write to a pipe failed because no program reads from it any more. A
// lost connection may cause the same error, so the caller must know whether it was writing to a
// pipe.
func Unread(err error) bool { return isOne(err, unread) }

func isOne(err error, kinds []error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}
