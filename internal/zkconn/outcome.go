package zkconn

import (
	"context"
	"sync"
)

// An Outcome says how many changes of a request took effect, and how many did not. A create,
// delete, set or setACL is one change. A multi has as many changes as operations, and a read counts
// as one change. Only this package determines the Outcome of a request, when the reply arrives or
// the wait for it ends. Callers must not derive an Outcome from an error.
type Outcome struct {
	Done     int // confirmed by the server
	Rejected int // without effect, because the server, the Fence or the size limit rejected them
	NotSent  int // without effect, because they were not sent
	Unknown  int // sent, but it is unknown whether they took effect
}

// MayHaveHappened reports whether at least one of the changes took effect or may have.
func (o Outcome) MayHaveHappened() bool { return o.Done+o.Unknown > 0 }

// Sent reports whether a server may have received at least one of the changes.
func (o Outcome) Sent() bool { return o.Done+o.Rejected+o.Unknown > 0 }

// Plus returns the sum of the outcomes o and p.
func (o Outcome) Plus(p Outcome) Outcome {
	return Outcome{o.Done + p.Done, o.Rejected + p.Rejected, o.NotSent + p.NotSent, o.Unknown + p.Unknown}
}

// fate returns the fate of a request, whose changes all succeed or all fail.
func (o Outcome) fate() fate {
	switch {
	case o.Done > 0:
		return done
	case o.Rejected > 0:
		return rejected
	case o.NotSent > 0:
		return notSent
	}
	return unknown
}

// A fate is the outcome that all changes of one request have in common.
type fate int

const (
	unknown fate = iota
	done
	rejected
	notSent
)

// of returns the Outcome of a request with n changes that all have this fate.
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

// fate returns the fate of a request that the server answered with the code c. The fate is unknown
// for the codes in inconclusive, and for codes that are not in refusals.
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
	case a.err != nil: // an operation of a multi was rejected, so ZooKeeper rolled the multi back
		return rejected
	case a.Err() != nil: // the answer is malformed
		return unknown
	}
	return a.code.fate()
}

// A Recorder adds up the outcomes of the writes that are sent with its Context. A change counts as
// Unknown from the moment when its request is made until its fate is known. So a change stays
// Unknown if no goroutine waits for the answer.
type Recorder struct {
	mu        sync.Mutex
	written   Outcome
	destroyed Outcome
	outer     *Recorder // Recorder of the context from which Context derived its own; nil if there was none
}

type recorderKey struct{}

// Context returns a context derived from ctx. The Recorder counts all requests that are made with
// it, and so does a Recorder that already counts the requests of ctx.
func (r *Recorder) Context(ctx context.Context) context.Context {
	r.outer = recorderOf(ctx)
	return context.WithValue(ctx, recorderKey{}, r)
}

func recorderOf(ctx context.Context) *Recorder {
	r, _ := ctx.Value(recorderKey{}).(*Recorder)
	return r
}

// Written returns the sum of the outcomes of all changes so far.
func (r *Recorder) Written() Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// Destroyed returns the sum of the outcomes of the destructive changes so far. These are deletes and
// changes of data or ACL, but not creates and checks.
func (r *Recorder) Destroyed() Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.destroyed
}

// A record counts one request in a Recorder, and in the outer ones.
type record struct {
	r           *Recorder
	n           int     // number of changes in the request
	destructive int     // number of destructive changes among them
	settled     bool    // whether the fate has been recorded; guarded by r.mu
	outer       *record // the same request in r.outer; nil if there is no outer Recorder
}

// record adds an entry for a request with n changes that is about to be sent. It returns nil if r
// is nil or n is 0.
func (r *Recorder) record(n, destructive int) *record {
	if r == nil || n == 0 {
		return nil
	}
	e := &record{r: r, n: n, destructive: destructive, outer: r.outer.record(n, destructive)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written.Unknown += n
	r.destroyed.Unknown += destructive
	return e
}

// settle records the fate of the request. Only the first call has an effect.
func (e *record) settle(f fate) {
	if e == nil {
		return
	}
	e.outer.settle(f)
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.settled {
		return
	}
	e.settled = true
	e.r.written.Unknown -= e.n
	e.r.written = e.r.written.Plus(f.of(e.n))
	e.r.destroyed.Unknown -= e.destructive
	e.r.destroyed = e.r.destroyed.Plus(f.of(e.destructive))
}
