package zkconn

import (
	"context"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A Trip follows one request from the send queue to the answer. A caller that wants to send other
// requests in between makes the request with the Trip's Context. On a nil Trip, the methods that
// record the progress of the request do nothing.
type Trip struct {
	Queued chan struct{} // closed once the request is in the send queue, after all earlier requests
	Alone  bool          // whether no other request is sent before the answer, so that a throttled request may be sent again

	// The caller may read the following fields after it has received the answer, or has stopped
	// waiting for it.
	Outcome Outcome
	Cut     bool         // whether the connection was lost, or the wait ended, before an answer arrived
	Size    int          // size of the answer, in bytes
	events  int          // number of events received before the answer
	held    int64        // number of bytes that Hold has counted
	in      *wire.Memory // Memory in which Hold has counted the held bytes; nil before Hold

	footprint footprint
}

// NewTrip returns a Trip for one request.
func NewTrip() *Trip { return &Trip{Queued: make(chan struct{})} }

type tripKey struct{}

// Context returns a context derived from ctx. The Trip follows the request that is made with it.
func (t *Trip) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, t)
}

// TripOf returns the Trip whose Context ctx is derived from, or nil if there is none.
func TripOf(ctx context.Context) *Trip {
	t, _ := ctx.Value(tripKey{}).(*Trip)
	return t
}

// untripped returns ctx without its Trip. It is for auxiliary requests that are sent before the
// request that the Trip follows.
func untripped(ctx context.Context) context.Context {
	return context.WithValue(ctx, tripKey{}, (*Trip)(nil))
}

// Apart returns ctx without its Trip, Transaction and Recorder. It is for a request that is sent in
// addition to those of a line, for example to explain an error.
func Apart(ctx context.Context) context.Context {
	ctx = context.WithValue(untripped(ctx), transactionKey{}, nil)
	return context.WithValue(ctx, recorderKey{}, nil)
}

func (t *Trip) begun() {
	if t != nil {
		close(t.Queued)
	}
}

// holds returns the Held value of the request, which says whether zksh may skip the answer if
// memory is short.
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

// Hold counts the size of the answer as used memory until Printed is called. The output that waits
// to be printed is about as large as the answer. s is the session of the request. See
// wire.MaxMemory.
func (t *Trip) Hold(s *Session) {
	t.held, t.in = int64(t.Size), s.current().cfg.waiting
	t.in.Add(t.held)
}

// Printed undoes Hold: the answer no longer counts as used memory.
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

// A footprint describes which znode a request reads or changes, and in which way. The zero value
// means that the request may concern any znode.
type footprint struct {
	path string
	kind int
}

// Kinds of footprints: the part of a znode that a request reads or changes.
const (
	otherFootprint    int = iota // unknown; the request may concern any znode
	readFootprint                // reads the data, ACL, Stat or children of one znode
	contentFootprint             // writes the data of one znode
	lifeFootprint                // creates or deletes one znode
	sequenceFootprint            // creates a sequential znode, with the parent's next number
)

// footprint returns the footprint of an operation. The kind is otherFootprint for reads that set a
// watch, and for multis with several changes.
func (o *operation) footprint() footprint {
	kind, code := otherFootprint, o.code
	if code == jute.OpMulti && len(o.changes) == 1 { // a multi with one change; checks of a Fence do not count
		code = o.changes[0].code
	}
	switch code {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2:
		if o.effect == nil {
			kind = readFootprint
		}
	case jute.OpSetData:
		kind = contentFootprint
	case jute.OpDelete:
		kind = lifeFootprint
	case jute.OpCreate:
		kind = lifeFootprint
		if len(o.changes) != 1 || o.changes[0].flags&zk.FlagSequence != 0 {
			kind = sequenceFootprint
		}
	}
	return footprint{o.path, kind}
}

// Commutes reports whether the requests of t and other have the same effects and results in
// either order, provided that both succeed. Differences in zxids and times do not count.
func (t *Trip) Commutes(other *Trip) bool { return t.footprint.commutes(other.footprint) }

func (f footprint) commutes(g footprint) bool {
	switch {
	case f.kind == otherFootprint || g.kind == otherFootprint:
		return false
	case f.kind == readFootprint && g.kind == readFootprint:
		return true
	case f.path == g.path:
		return false
	case f.kind >= lifeFootprint && path.Dir(f.path) == g.path, g.kind >= lifeFootprint && path.Dir(g.path) == f.path:
		return false // creating or deleting a child changes the parent's Stat and list of children
	case f.kind == sequenceFootprint && g.kind >= lifeFootprint, g.kind == sequenceFootprint && f.kind >= lifeFootprint:
		return path.Dir(f.path) != path.Dir(g.path)
	}
	return true
}
