package zkconn

import (
	"context"
	"sync"
)

// An Outcome reports what became of the changes of a request. A create, delete,
// set or setACL is one change; a multi has as many as it has operations; a read
// counts as one. Only this package determines the Outcome of a request, when the reply
// arrives or the wait for it ends. It is never derived from an error.
type Outcome struct {
	Done     int // confirmed by the server
	Rejected int // without effect: the server, the Fence or the size limit rejected them
	NotSent  int // without effect: they were not sent
	Unknown  int // sent, but it is unknown whether they took effect
}

// MayHaveHappened reports whether any of the changes took effect or may have.
func (o Outcome) MayHaveHappened() bool { return o.Done+o.Unknown > 0 }

// Sent reports whether a server may have received any of the changes.
func (o Outcome) Sent() bool { return o.Done+o.Rejected+o.Unknown > 0 }

// Plus returns the sum of two outcomes.
func (o Outcome) Plus(p Outcome) Outcome {
	return Outcome{o.Done + p.Done, o.Rejected + p.Rejected, o.NotSent + p.NotSent, o.Unknown + p.Unknown}
}

// share returns the outcome of n of a request's changes. All changes of a request have the same
// fate.
func (o Outcome) share(n int) Outcome {
	switch {
	case o.Done > 0:
		return Outcome{Done: n}
	case o.Rejected > 0:
		return Outcome{Rejected: n}
	case o.NotSent > 0:
		return Outcome{NotSent: n}
	}
	return Outcome{Unknown: n}
}

// A fate is the outcome of one request.
type fate int

const (
	unknown fate = iota
	done
	rejected
	notSent
)

// of returns the Outcome of n changes with this fate.
func (f fate) of(n int) Outcome {
	switch f {
	case done:
		return Outcome{Done: n}
	case rejected:
		return Outcome{Rejected: n}
	case notSent:
		return Outcome{NotSent: n}
	}
	return Outcome{Unknown: n}
}

// fate returns the fate of a request that was answered with this code. It is unknown for the
// codes in inconclusive, and for every code that is not in refusals.
func (c Code) fate() fate {
	if c == codeOK {
		return done
	}
	if _, known := refusals[c]; known && !inconclusive[c] {
		return rejected
	}
	return unknown
}

// fateOf returns the fate of a request after its answer has been decoded.
func fateOf(a *answer) fate {
	switch {
	case a.fenced:
		return rejected
	case a.err != nil: // refusal of a part of a multi: ZooKeeper rolled the multi back
		return rejected
	case a.Err() != nil: // malformed
		return unknown
	}
	return a.code.fate()
}

// A Recorder adds up the outcomes of the destructive changes that are sent with its Context: new
// data, a delete, a new ACL, but no create or check. A change counts as Unknown from the moment
// its request is made until its fate is known, so a change that nobody waits for stays Unknown.
type Recorder struct {
	mu        sync.Mutex
	destroyed Outcome
}

type recorderKey struct{}

// Context returns a context whose requests r records.
func (r *Recorder) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, recorderKey{}, r)
}

// Outcome returns the sum so far.
func (r *Recorder) Outcome() Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.destroyed
}

// record is the entry of one request in a Recorder.
type record struct {
	r       *Recorder
	n       int  // changes that destroy something
	settled bool // guarded by r.mu
}

// open records a request that is about to be sent. It returns nil if there is
// nothing to record.
func (r *Recorder) open(n int) *record {
	if r == nil || n == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.destroyed.Unknown += n
	return &record{r: r, n: n}
}

// settle records the fate of the request. Only the first call counts.
func (e *record) settle(f fate) {
	if e == nil {
		return
	}
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.settled {
		return
	}
	e.settled = true
	e.r.destroyed.Unknown -= e.n
	e.r.destroyed = e.r.destroyed.Plus(f.of(e.n))
}
