package batch

import (
	"errors"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// A pendingLine is a line that has been read and whose output has not been printed.
type pendingLine struct {
	number   int
	cmd      string // name of the command
	line     commands.Line
	priorErr error // error that was reported for this line before it ran; may be nil
	out      *Transcript

	// The fields below are set when the line starts in the window. err is also set when the line
	// cannot be read.
	trip      *zkconn.Trip
	ended     chan struct{} // closed when the command has ended
	err       error         // error of reading the line or of its command
	mustRerun bool          // whether the line must run again, because an earlier line runs again
}

// isClosed reports whether c is closed. c must be a channel on which nothing is ever sent.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// handedOver reports whether the request of the line has been handed to the connection, or the
// command has ended without a request.
func (p *pendingLine) handedOver() bool { return isClosed(p.trip.Queued) || isClosed(p.ended) }

// sent reports whether a server may have received the request. It is valid only after the line has
// ended.
func (p *pendingLine) sent() bool { return p.trip.Outcome.Sent() }

// mayBeDone reports whether the request may have taken effect. It is valid only after the line has
// ended.
func (p *pendingLine) mayBeDone() bool { return p.trip.Outcome.MayHaveHappened() }

// cutOff reports whether a line ended without an answer to its request, because the connection was
// lost or the batch was interrupted.
func (p *pendingLine) cutOff() bool {
	return p.trip.Cut || errors.Is(p.err, exit.ErrInterrupted) || errors.Is(p.err, exit.ErrTerminated)
}

// throttled reports whether an overloaded server rejected the request. It is valid only after the
// line has ended.
func (p *pendingLine) throttled() bool { return errors.Is(p.err, zkconn.Throttled) }
