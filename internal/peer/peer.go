// Package peer classifies errors about the other end of a connection or a pipe: refused, cut or
// unread. Each operating system has its own error numbers for these.
package peer

import (
	"errors"
	"slices"
)

// Refused reports whether a connection failed because no program listens at the address.
func Refused(err error) bool { return isOne(err, refused) }

// Cut reports whether a connection was lost, that is, reset by the other end.
func Cut(err error) bool { return isOne(err, cut) }

// Unread reports whether a write to a pipe failed because nobody reads from it any more. A lost
// connection may cause the same error, so the caller must know which of the two it was writing to.
func Unread(err error) bool { return isOne(err, unread) }

func isOne(err error, of []error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}
