package zkconn

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A target is the connection that requests go to, with its link and the chroot of their paths.
type target struct {
	*wire.Conn
	l    *link
	root chroot
}

// A Sender sends single operations: a Client, a Session, or a Pinned.
type Sender interface {
	// connection waits for the connection to send on. The path is for its error.
	connection(ctx context.Context, path string) (target, error)
	// fencedBy returns the Fence that writes depend on; nil if there is none.
	fencedBy() Fence
}

// Do sends one operation and returns its result. It waits until ctx ends. A malformed path
// is an error before anything is sent. Other errors are *Error for a refusal; *NoServerError
// or *UnsentError when nothing was sent; *LostError when the connection broke after sending
// and *AbandonedError when ctx ended then; ErrNotConnected after Close. If the server
// hangs up over a request newer than 3.4, Do finds out whether the server knows it.
func Do[T any](ctx context.Context, s Sender, o Op[T]) (T, error) {
	v, err := once(ctx, s, o)
	h, ok := errors.AsType[*hangUp](err)
	if _, joined := ctx.Value(transactionKey{}).(*Transaction); !ok || joined {
		return v, err
	}
	v, f, err := afterHangUp(ctx, s, o, err, h)
	trip := TripOf(ctx)
	trip.cameTo(f.of(o.size()), f == unknown)
	return v, err
}

// Exec is Do without the result.
func Exec[T any](ctx context.Context, s Sender, o Op[T]) error {
	_, err := Do(ctx, s, o)
	return err
}

// once is Do, but does not handle a server that hangs up over the request.
func once[T any](ctx context.Context, s Sender, o Op[T]) (none T, err error) {
	if o.err != nil {
		return none, o.err
	}
	if t, ok := ctx.Value(transactionKey{}).(*Transaction); ok {
		return join(ctx, t, s, o)
	}
	trip := TripOf(ctx)
	to, err := s.connection(ctx, o.path)
	if err == nil {
		err = to.admit(ctx, o.trialOp(), o.path)
	}
	if err != nil {
		trip.cameTo(notSent.of(o.size()), false)
		return none, err
	}
	var g guard
	if jute.Writes(o.code) {
		if g, err = currentGuard(ctx, s, to.l); err != nil {
			trip.cameTo(notSent.of(o.size()), false)
			return none, err
		}
	}
	p := dispatch(ctx, to, o, g)
	if trip != nil && !trip.Alone { // sent again, the request would come after later ones; the caller of NewTrip handles that
		p.repeats = false
	}
	return p.Wait(ctx)
}

// dispatch sends an operation, with the checks of g if it is a write.
func dispatch[T any](ctx context.Context, to target, o Op[T], g guard) *Pending[T] {
	switch {
	case !g.guards(o.code):
	case o.changes == nil:
		return sendChecked(ctx, to, o, g)
	default:
		o = fenced(o, g)
	}
	p := begin(ctx, to, o)
	p.call.trip.begun()
	return p
}

// begin binds an operation to a connection and sends it.
func begin[T any](ctx context.Context, to target, o Op[T]) *Pending[T] {
	p := bind(ctx, to, o)
	if p.repeats = true; o.err == nil {
		to.send(p.call)
	}
	return p
}

// send passes calls to the connection, in this order. It rejects those that must not be sent.
func (to target) send(calls ...*call) {
	requests := make([]*wire.Request, 0, len(calls))
	for _, c := range calls {
		if err := to.l.cfg.refuses(c.Op); err != nil {
			c.finish(reply{err: err, fate: notSent})
		} else if err := to.l.cfg.tooLarge(c); err != nil {
			c.finish(reply{err: err, fate: rejected, refusal: true})
		} else {
			requests = append(requests, &c.Request)
		}
	}
	to.Send(requests...)
}

// bind makes an operation a request that is not sent yet.
func bind[T any](ctx context.Context, to target, o Op[T]) *Pending[T] {
	p := &Pending[T]{batch[T]{op: o}}
	p.call = newCall(ctx, to, &p.op)
	return p
}

// newCall makes an operation a call, which is not sent any more once ctx has ended.
func newCall[T any](ctx context.Context, to target, o *Op[T]) *call {
	c := &call{to: to, path: o.path, write: o.write, done: make(chan reply, 1)}
	c.Request = wire.Request{Context: ctx, Op: o.code, End: c.end}
	if c.trip = TripOf(ctx); c.trip != nil {
		c.trip.footprint = o.footprint()
		c.Held = c.trip.holds()
	}
	if o.err != nil {
		c.done <- reply{err: o.err, fate: notSent}
	} else {
		e := jute.Encoder{B: make([]byte, 0, usualFrame+len(o.path))}
		o.frame(&e, to.root)
		c.Frames = e.B
		c.Newer = o.trialOp()
	}
	if effect := o.effect; effect != nil {
		c.Answered = func(_ int, r wire.Reply) { effect(to.l, answerTo(r, to.root)) }
	}
	if n := o.destroys(); o.err == nil && n > 0 {
		recorder, _ := ctx.Value(recorderKey{}).(*Recorder)
		c.record = recorder.open(n)
	}
	return c
}

// A call is one request in flight, or several that go together. newCall makes it, target.send
// sends it, and it is answered through done exactly once, whatever happens.
type call struct {
	wire.Request
	to     target
	path   string
	write  bool
	done   chan reply  // capacity 1
	then   func(reply) // called after the answer; may be nil
	trip   *Trip       // may be nil
	record *record     // may be nil
}

// longest returns the size of the longest request, in bytes.
func (c *call) longest() (longest int) {
	for at := 0; at < len(c.Frames); {
		size := int(binary.BigEndian.Uint32(c.Frames[at:]))
		longest = max(longest, size)
		at += 4 + size
	}
	return longest
}

// A reply is the answer to a call, or err if there was none.
type reply struct {
	wire.Reply
	err     error
	fate    fate // if err is set
	cut     bool // the connection or the wait ended before an answer came
	refusal bool // err rejects this very request, as a server's refusal does
	events  int  // number of events received before
}

func answerTo(r wire.Reply, root chroot) *answer {
	d := jute.NewDecoder(r.Body)
	d.Limit(maxLists)
	return &answer{Decoder: d, code: Code(r.Code), zxid: r.Zxid, root: root}
}

// next makes a the answer of the next reply.
func (a *answer) next(r *wire.Reply) {
	a.Next(r.Body)
	a.code, a.zxid, a.err = Code(r.Code), r.Zxid, nil
}

// wait waits for the reply until ctx ends. The error says why there is none.
func (c *call) wait(ctx context.Context) (reply, error) {
	select {
	case r := <-c.done:
		return c.received(r)
	case <-ctx.Done():
	}
	c.to.Withdraw(&c.Request, context.Cause(ctx))
	select {
	case r := <-c.done: // the reply has just come, or reports that the call was not sent
		return c.received(r)
	default:
	}
	if c.write {
		return reply{fate: unknown, cut: true}, &AbandonedError{Path: c.path, Cause: context.Cause(ctx)}
	}
	return reply{fate: unknown, cut: true}, context.Cause(ctx)
}

// received completes a reply for the caller. If the connection was lost because the server
// rejected a credential, that is the error.
func (c *call) received(r reply) (reply, error) {
	c.trip.ended(r)
	if errors.Is(r.err, ConnectionLoss) {
		if end := c.to.l.wire.Status().Ending; end != nil && end.Why != nil {
			r.err = end.Why
		}
	}
	return r, r.err
}

// end answers the call with the reply of the connection.
func (c *call) end(from wire.Reply) {
	r := reply{Reply: from, cut: from.Err != nil}
	switch cause := from.Err; {
	case cause == nil:
	case from.Sent:
		if from.HungUp {
			cause = &hangUp{c.to.l, c.Newer, c.to.Server, cause}
		}
		r.err, r.fate = &LostError{c.path, c.write, from.Size, cause}, unknown
	case from.Broken:
		r.err, r.fate = c.unsent(broken(cause)), notSent
	default:
		r.err, r.fate = c.unsent(cause), notSent
	}
	c.finish(r)
}

// unsent returns the error of a call that was not sent, and so had no effect.
func (c *call) unsent(cause error) error { return &UnsentError{c.path, c.write, cause} }

func (c *call) finish(r reply) {
	if r.err != nil {
		c.record.settle(r.fate)
	}
	r.events = c.to.l.out.count()
	c.done <- r
	if c.then != nil {
		c.then(r)
	}
}
