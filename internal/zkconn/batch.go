package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A batch is one request, or several of the same type, whose answers are still to come.
// Several requests share one call, and wake the caller once.
type batch[T any] struct {
	call    *call
	op      Op[T]                   // of one request; of several, the last
	paths   []string                // of several
	ask     func(path string) Op[T] // makes the operation of each path; nil for one request
	repeats bool                    // a throttled request is sent again

	slowed   bool
	size     int // of the answers that have been read, in bytes
	fate     fate
	answered bool
}

// at returns the operation of the request at a place.
func (b *batch[T]) at(i int) Op[T] {
	if b.ask == nil {
		return b.op
	}
	return b.ask(b.paths[i])
}

// Ready reports whether Wait or Each would return at once, unless the server has throttled a
// request.
func (b *batch[T]) Ready() bool { return len(b.call.done) > 0 }

// Slowed reports whether a request that has been answered was throttled before.
func (b *batch[T]) Slowed() bool { return b.slowed }

// read reads the answer to the request at a place by way of a. Without an answer, failure says
// why.
func (b *batch[T]) read(a *answer, i int, r *reply, failure error) (v T, err error) {
	switch {
	case failure != nil:
		err, b.fate, b.answered = failure, r.fate, r.refusal
	case r.Code != wire.OK:
		o, code := b.at(i), Code(r.Code)
		newest := o.newest()
		err = a.root.refusal(code, newest.code, newest.path)
		b.fate, b.answered = code.fate(), true
	default:
		a.next(&r.Reply)
		if b.size += len(r.Body); b.ask != nil && b.size > maxSeveral {
			return v, fmt.Errorf("the server's replies to %d requests are larger than %d MiB in total", len(b.paths), maxSeveral>>20)
		}
		v, err = read(a, b.op.decode)
		b.fate, b.answered = fateOf(a), !a.fenced
	}
	b.call.record.settle(b.fate)
	b.call.trip.cameTo(b.fate.of(b.op.size()), r.cut)
	return v, err
}

// answer is read, but sends a throttled request again, alone, until another answer comes. It
// gives up after a session's time.
func (b *batch[T]) answer(ctx context.Context, a *answer, i int, r *reply, failure error) (T, error) {
	v, err := b.read(a, i, r, failure)
	if !b.repeats || !errors.Is(err, Throttled) {
		return v, err
	}
	var pause pauses
	to := b.call.to
	limit := time.Now().Add(to.l.wire.Status().Patience)
	for errors.Is(err, Throttled) && time.Now().Before(limit) && pause.wait(ctx, to.Conn) {
		b.slowed = true
		o := b.at(i)
		b.call = newCall(b.call.Context, to, &o)
		b.call.Held = wire.HeldAlways
		to.send(b.call)
		r, failure := b.call.wait(ctx)
		v, err = b.read(a, i, &r, failure)
	}
	return v, err
}

// Pending is the answer to one request that is still to come.
type Pending[T any] struct{ batch[T] }

// Outcome returns what became of the request's changes. It may be called once Wait has
// returned; before that, they are Unknown.
func (p *Pending[T]) Outcome() Outcome { return p.fate.of(p.op.size()) }

// Answered reports whether Wait has returned the answer to this very request: a value, the
// server's refusal, or that the request is too large.
func (p *Pending[T]) Answered() bool { return p.answered }

// Wait returns the result. When ctx ends first, the error says whether the request had been
// sent. A throttled request is sent again.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	r, err := p.call.wait(ctx)
	return p.answer(ctx, answerTo(wire.Reply{}, p.call.to.root), 0, &r, err)
}

// maxSeveral bounds the answers to several requests, in bytes: all of them are in memory until
// the last one has been read.
const maxSeveral = 96 << 20

// Several are the answers to requests that go together.
type Several[T any] struct{ batch[T] }

// Len returns the number of requests.
func (s *Several[T]) Len() int { return len(s.paths) }

// Each waits for all answers, and calls take for each in the order of the paths, with its
// result or its refusal. It stops at any other error. When ctx ends first, the error says
// whether the requests had been sent. A throttled request is sent again.
func (s *Several[T]) Each(ctx context.Context, take func(v T, refusal error)) error {
	r, err := s.call.wait(ctx)
	a := answerTo(wire.Reply{}, s.call.to.root)
	if a.more = len(r.Parts); a.more == 0 { // none has an answer of its own
		_, err = s.read(a, 0, &r, err)
		return err
	}
	var own reply
	for i := range r.Parts {
		part := &r.Parts[i]
		own.Code, own.Body, part.Body = part.Code, part.Body, nil // so that what has been read can be freed
		v, err := s.answer(ctx, a, i, &own, nil)
		if err != nil && !errors.As(err, new(*Error)) {
			return err
		}
		take(v, err)
	}
	return nil
}
