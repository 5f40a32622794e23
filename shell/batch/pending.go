package batch

import (
	"errors"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
)

// pendingLine is a line that has been read and not printed yet.
type pendingLine struct {
	number int
	cmd    string
	line   commands.Line
	before error // reported for this line before it ran
	out    *Transcript

	// These are set when the line starts in the window.
	trip  *zkconn.Trip
	ended chan struct{} // closed when the command has ended
	err   error         // of reading the line, or of its command
	stale bool          // it runs once more, as a line before it does
}

// isClosed reports whether a channel is closed that nothing is sent to.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begun reports whether the request of the line has been handed over, or never will be.
func (p *pendingLine) begun() bool { return isClosed(p.trip.Sent) || isClosed(p.ended) }

// sent reports whether a server may have received the request of a line that has ended.
func (p *pendingLine) sent() bool { return p.trip.Outcome.Sent() }

// mayBeDone reports whether the request of a line that has ended may have been carried out.
func (p *pendingLine) mayBeDone() bool { return p.trip.Outcome.MayHaveHappened() }

// cutOff reports whether a line that has ended got no answer to its request: the connection
// was lost, or the batch was interrupted.
func (p *pendingLine) cutOff() bool {
	return p.trip.Cut || errors.Is(p.err, exit.ErrInterrupted) || errors.Is(p.err, exit.ErrTerminated)
}

// throttled reports whether an overloaded server did not carry out a line that has ended.
func (p *pendingLine) throttled() bool { return errors.Is(p.err, zkconn.Throttled) }
