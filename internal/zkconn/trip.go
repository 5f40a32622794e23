package zkconn

import (
	"context"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A Trip follows one request that is made with its Context, for a caller that sends others
// before the answer comes. A nil Trip follows nothing.
type Trip struct {
	Sent  chan struct{} // closed once the request is queued, after all that were made before
	Alone bool          // no other request is sent before the answer, so this one may be sent again

	// The following fields may be read once the request has been answered or given up.
	Outcome Outcome
	Cut     bool         // the connection was lost, or the wait given up, before an answer came
	Size    int          // of the answer, in bytes
	events  int          // number of events received before the answer
	held    int64        // bytes that Hold has counted
	in      *wire.Memory // the memory in which held is counted

	footprint footprint
}

// NewTrip makes a Trip of one request.
func NewTrip() *Trip { return &Trip{Sent: make(chan struct{})} }

type tripKey struct{}

// Context returns a context for the request to follow.
func (t *Trip) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, t)
}

// TripOf returns the Trip that follows the request of a context, or nil.
func TripOf(ctx context.Context) *Trip {
	t, _ := ctx.Value(tripKey{}).(*Trip)
	return t
}

// untripped returns ctx without its Trip, for requests that are sent before the followed one.
func untripped(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, (*Trip)(nil))
}

func (t *Trip) begun() {
	if t != nil {
		close(t.Sent)
	}
}

// holds returns how the answer is held in memory.
func (t *Trip) holds() wire.Held {
	if t.Alone {
		return wire.HeldAlways
	}
	return wire.HeldInLine
}

func (t *Trip) ended(r reply) {
	if t != nil {
		t.Size, t.events = len(r.Body), r.events
	}
}

// Hold counts the size of the answer as used memory, see wire.MaxMemory, until Printed is
// called: the output takes about as much. s is the session of the request.
func (t *Trip) Hold(s *Session) {
	t.held, t.in = int64(t.Size), s.current().cfg.waiting
	t.in.Add(t.held)
}

// Printed ends Hold.
func (t *Trip) Printed() {
	if t.in != nil {
		t.in.Add(-t.held)
		t.held = 0
	}
}

func (t *Trip) cameTo(o Outcome, cut bool) {
	if t != nil {
		t.Outcome, t.Cut = o, cut
	}
}
