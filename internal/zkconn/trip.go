package zkconn

import (
	"context"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Trip follows the request that is made with its context, for somebody who sends
// others before it is answered. A nil one follows nothing.
type Trip struct {
	Sent  chan struct{} // closed once the request stands behind all that were made before
	Alone bool          // no other is sent before it is answered, so that it may be sent again

	// These may be read when the request is over.
	Outcome Outcome
	Cut     bool // the connection was lost, or the wait given up, before an answer came
	Size    int  // of the answer, in bytes
	events  int  // number of events received before the answer
	held    int64
	in      *wire.Memory // which held is counted in

	footprint footprint
}

// NewTrip makes a Trip of one request.
func NewTrip() *Trip { return &Trip{Sent: make(chan struct{})} }

type tripKey struct{}

// Context is for the request that is to be followed.
func (t *Trip) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, t)
}

// TripOf returns the Trip that follows the request of a context, or nil.
func TripOf(ctx context.Context) *Trip {
	t, _ := ctx.Value(tripKey{}).(*Trip)
	return t
}

// untripped is for requests before the one that is followed.
func untripped(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, (*Trip)(nil))
}

func (t *Trip) begun() {
	if t != nil {
		close(t.Sent)
	}
}

// holds says how the answer is held in memory.
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

// Hold counts the answer as one that waits, see wire.MaxMemory, until it is printed: what was
// made of it takes about as much. Session is that of the request.
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
