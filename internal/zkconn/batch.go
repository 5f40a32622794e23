package zkconn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A batch is one request, or several of the same type, whose answers have not all been read yet.
// Several requests share one call, so that the caller is woken only once.
type batch[T any] struct {
	call    *call
	op      Op[T]                   // operation of the request, or of the last of several requests
	paths   []string                // path of each request; nil for a single request
	ask     func(path string) Op[T] // makes the operation for a path; nil for a single request
	repeats bool                    // whether a request that the server throttled is sent again

	slowed   bool // whether the server has throttled a request of this batch
	size     int  // total size of the answers that have been read, in bytes
	fate     fate
	answered bool
}

// at returns the operation of the request with index i.
func (b *batch[T]) at(i int) Op[T] {
	if b.ask == nil {
		return b.op
	}
	return b.ask(b.paths[i])
}

// Ready reports whether the answers have arrived, so that Wait or Each returns at once unless the
// server has throttled a request.
func (b *batch[T]) Ready() bool { return len(b.call.done) > 0 }

// Slowed reports whether the server throttled a request of this batch at least once.
func (b *batch[T]) Slowed() bool { return b.slowed }

// read uses a to decode r, the answer to the request with index i, and returns the result. If
// failure is not nil, there is no answer, and read returns failure.
func (b *batch[T]) read(a *answer, i int, r *reply, failure error) (v T, err error) {
	switch {
	case failure != nil:
		err, b.fate, b.answered = failure, r.fate, r.refusal
	case r.Code != wire.OK:
		o, code := b.at(i), Code(r.Code)
		err = a.root.refusal(code, o.newest())
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

// answer is like read, but sends the request again if the server throttled it. It repeats this
// until the server gives another answer, or until the session timeout has passed.
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
		b.call = newCall(b.call.Context, to, &o.operation)
		b.call.Held = wire.HeldAlways
		to.send(b.call)
		r, failure := b.call.wait(ctx)
		v, err = b.read(a, i, &r, failure)
	}
	return v, err
}

// A Pending is one request whose answer has not been read yet.
type Pending[T any] struct{ batch[T] }

// Outcome returns the outcome of the request's changes. Before Wait has returned, all changes are
// Unknown.
func (p *Pending[T]) Outcome() Outcome { return p.fate.of(p.op.size()) }

// Answered reports whether Wait returned a value, the server's refusal of this request, or the
// error for a request that is too large. It is false if Wait failed for another reason, such as a
// lost connection or the Fence.
func (p *Pending[T]) Answered() bool { return p.answered }

// Wait waits for the answer and returns the result. If ctx ends first, the error says whether the
// request had been sent. If the server throttles the request, Wait sends it again.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	r, err := p.call.wait(ctx)
	return p.answer(ctx, answerTo(wire.Reply{}, p.call.to.root), 0, &r, err)
}

// maxSeveral is the maximum total size of the answers to several requests, in bytes. It limits
// memory, because all answers stay in memory until the last one has been read.
const maxSeveral = 96 << 20

// A Several is a group of requests that were sent together and whose answers have not all been
// read yet.
type Several[T any] struct{ batch[T] }

// Len returns the number of requests.
func (s *Several[T]) Len() int { return len(s.paths) }

// Each waits for all answers. It then calls visit for each of them, in the order of the paths,
// with the result or the server's refusal. It stops at any other error. If ctx ends first, the
// error says whether the requests had been sent. If the server throttles a request, Each sends it
// again.
func (s *Several[T]) Each(ctx context.Context, visit func(v T, refusal error)) error {
	r, err := s.call.wait(ctx)
	a := answerTo(wire.Reply{}, s.call.to.root)
	if a.more = len(r.Parts); a.more == 0 { // there are no answers; err is the reason
		_, err = s.read(a, 0, &r, err)
		return err
	}
	var own reply
	for i := range r.Parts {
		part := &r.Parts[i]
		own.Code, own.Body, part.Body = part.Code, part.Body, nil // drop the body, so that its memory can be freed after it has been read
		v, err := s.answer(ctx, a, i, &own, nil)
		if err != nil && !errors.As(err, new(*Error)) {
			return err
		}
		visit(v, err)
	}
	return nil
}
