package zkconn

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A target is a connection on which to send requests, with its link and the chroot for the paths of
// the requests.
type target struct {
	*wire.Conn
	l    *link
	root chroot
}

// A Sender determines the session in which Do and Exec send an operation. It is a Client, a
// Session, a Pinned, an Epoch or a Transaction.
type Sender interface {
	// connection returns the connection on which to send requests, and waits for one if there is
	// none. path is the path for error messages.
	connection(ctx context.Context, path string) (target, error)
	// fencedBy returns the Fence that writes depend on, or nil if there is none.
	fencedBy() Fence
}

// Do sends one operation and returns its result. It waits for the answer until ctx ends. If the path
// is malformed, Do returns an error and sends nothing. Other errors are:
//   - *Error, if the server rejected the operation
//   - *NoServerError or *UnsentError, if the request was not sent
//   - *LostError, if the connection was lost after the request had been sent
//   - *AbandonedError, if ctx ended after a write had been sent
//   - ErrNotConnected, after Close
//
// If the server closes the connection because of a request that is newer than ZooKeeper 3.4, Do finds
// out whether the server supports the request.
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

// Exec is like Do, but does not return the result.
func Exec[T any](ctx context.Context, s Sender, o Op[T]) error {
	_, err := Do(ctx, s, o)
	return err
}

// once is like Do, but tries only once: if the server closes the connection because of the
// request, once returns that error.
func once[T any](ctx context.Context, s Sender, o Op[T]) (none T, err error) {
	if o.err != nil {
		return none, o.err
	}
	if t, ok := ctx.Value(transactionKey{}).(*Transaction); ok {
		a, err := t.join(ctx, s, o.operation)
		if err != nil {
			return none, err
		}
		return read(a, o.decode)
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
	// If later requests may be in flight, do not repeat a throttled request, because it would run
	// after them. The caller decides whether to repeat it.
	if trip != nil && !trip.Alone {
		p.repeats = false
	}
	return p.Wait(ctx)
}

// dispatch sends the operation o. If writes depend on znodes of the guard g and o is a write, it
// also sends the checks of these znodes.
func dispatch[T any](ctx context.Context, to target, o Op[T], g guard) *Pending[T] {
	switch {
	case !g.guards(o.code):
	case o.changes == nil:
		p := bind(ctx, to, o)
		sendChecked(ctx, p.call, o.kind(), g)
		return p
	default:
		o = fenced(o, g)
	}
	p := begin(ctx, to, o)
	p.call.trip.begun()
	return p
}

// begin sends the operation o to the target, and returns without waiting for the answer.
func begin[T any](ctx context.Context, to target, o Op[T]) *Pending[T] {
	p := bind(ctx, to, o)
	if p.repeats = true; o.err == nil {
		to.send(p.call)
	}
	return p
}

// send passes the calls to the connection, in the given order. It does not send a call that is too
// large, or a write if writes are disabled. Such a call ends with an error.
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

// bind turns the operation o into a request for the target, but does not send it yet.
func bind[T any](ctx context.Context, to target, o Op[T]) *Pending[T] {
	p := &Pending[T]{batch[T]{op: o}}
	p.call = newCall(ctx, to, &p.op.operation)
	return p
}

// newCall turns the operation o into a call for the target. If ctx ends before the call has been
// sent, the call is not sent at all.
func newCall(ctx context.Context, to target, o *operation) *call {
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
	if o.err == nil {
		c.record = o.record(ctx)
	}
	return c
}

// A call is one request to the server, or several that are sent together. newCall makes it and
// target.send sends it. Exactly one reply is sent to the channel done, whether or not the server
// answers.
type call struct {
	wire.Request
	to     target
	path   string
	write  bool
	done   chan reply  // receives the reply; capacity 1, so that the sender never blocks
	then   func(reply) // called after the reply was sent to done; may be nil
	trip   *Trip       // the Trip that follows the call; nil if none
	record *record     // entry of the call in a Recorder; nil if none
}

// longest returns the size of the longest request of the call, in bytes.
func (c *call) longest() (longest int) {
	for at := 0; at < len(c.Frames); {
		size := int(binary.BigEndian.Uint32(c.Frames[at:]))
		longest = max(longest, size)
		at += 4 + size
	}
	return longest
}

// A reply is the answer to a call. If there is no answer, err says why.
type reply struct {
	wire.Reply
	err     error
	fate    fate // if err is set: whether the request took effect
	cut     bool // whether the connection or the wait ended before an answer arrived
	refusal bool // whether err is about this request itself, like a server's refusal
	events  int  // number of events received before the reply
}

func answerTo(r wire.Reply, root chroot) *answer {
	d := jute.NewDecoder(r.Body)
	d.Limit(maxLists)
	return &answer{Decoder: d, code: Code(r.Code), zxid: r.Zxid, root: root}
}

// next prepares a for decoding the next reply r. It keeps the allocated Stats and the last ACL, so
// that they can be reused.
func (a *answer) next(r *wire.Reply) {
	a.Next(r.Body)
	a.code, a.zxid, a.err = Code(r.Code), r.Zxid, nil
}

// wait waits for the reply until ctx ends. If there is no answer, the error says why.
func (c *call) wait(ctx context.Context) (reply, error) {
	select {
	case r := <-c.done:
		return c.received(r)
	case <-ctx.Done():
	}
	c.to.Withdraw(&c.Request, context.Cause(ctx))
	select {
	case r := <-c.done: // the reply has just arrived, or reports that the call was not sent
		return c.received(r)
	default:
	}
	if c.write {
		return reply{fate: unknown, cut: true}, &AbandonedError{Path: c.path, Cause: context.Cause(ctx)}
	}
	return reply{fate: unknown, cut: true}, context.Cause(ctx)
}

// received passes the reply to the call's Trip, and returns the reply and its error. If the
// connection was lost because the server rejected a credential, the error says so.
func (c *call) received(r reply) (reply, error) {
	c.trip.ended(r)
	if errors.Is(r.err, ConnectionLoss) {
		if end := c.to.l.wire.Status().Ending; end != nil && end.Why != nil {
			r.err = end.Why
		}
	}
	return r, r.err
}

// end ends the call. It converts the wire.Reply to a reply, and sends that reply to the channel
// done.
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

// unsent returns the error for a call that was not sent, and so had no effect.
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
