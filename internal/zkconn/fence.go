package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
)

// Fence says without what nothing is to be written. Servers themselves see to it: the
// znodes are checked in one transaction with the write. Its methods may be called from
// any goroutine.
type Fence interface {
	// Nodes returns the znodes, by the server's paths, that must be there in the ensemble
	// of a session. With a *FencedError nothing may be written.
	Nodes(ctx context.Context, at Epoch) ([]string, error)
	// Refused is the error of a write without effect, because the check of a znode was
	// refused: by NoNode where it is gone, by NoAuth where it may not be read. It must not
	// wait for a server.
	Refused(at Ensemble, node string, code Code) error
	// For is the fence of another session of this program.
	For(s *Session) Fence
}

// SetFence fences all that is written through Client, Pipe and Transaction. It is called
// before anything is sent. Neither what is Pinned is fenced nor Another session or a Second one.
func (s *Session) SetFence(f Fence) { s.fence = f }

// Unfenced gives requests that are not fenced.
func (c Client) Unfenced() Client {
	c.unfenced = true
	return c
}

// Fenced reports whether writes are fenced now, or, with an error, may be.
func (s *Session) Fenced(ctx context.Context) (bool, error) {
	g, err := fencing(ctx, s.Client, s.current())
	return len(g.nodes) > 0, err
}

// FencedError says that a write was not carried out because of the Fence.
type FencedError struct {
	Err error // what Fence.Refused says, or why Fence.Nodes cannot name the znodes
}

func (e *FencedError) Error() string { return e.Err.Error() }

// Unwrap gives the error of the Fence, which is no refusal of the write.
func (e *FencedError) Unwrap() error { return e.Err }

// guard is the checks of writes in one ensemble.
type guard struct {
	fence Fence
	at    Ensemble
	nodes []string
}

// fencing is what guards the writes of a sender now.
func fencing(ctx context.Context, s Sender, l *link) (g guard, err error) {
	if g.fence, g.at = s.fencedBy(), (Ensemble{l}); g.fence != nil {
		g.nodes, err = g.fence.Nodes(untripped(ctx), g.at.Epoch()) // if the epoch has changed meanwhile, the sender's connection is dead
	}
	return g, err
}

// guards reports whether an operation is fenced: whether it changes what is stored.
func (g guard) guards(code int32) bool { return len(g.nodes) > 0 && jute.Writes(code) }

// checks are the first changes of a multi that is fenced.
func (g guard) checks() []Change {
	all := make([]Change, len(g.nodes))
	for i, node := range g.nodes {
		all[i] = check(node, -1)
		all[i].absolute = true
	}
	return all
}

// failed reads the answers to the checks, and returns the znode of the one that is to
// blame and why; without one the code is codeOK. It asks nobody, as it may
// run where answers are received.
func (g guard) failed(a *answer) (node string, code Code) {
	for _, c := range g.checks() {
		_, err := c.result(a, a.part())
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.Code != runtimeInconsistency {
			return c.path, refusal.Code
		}
	}
	return "", codeOK
}

// refusal is the error of a write that was not carried out for a check.
func (g guard) refusal(node string, code Code) error {
	return &FencedError{g.fence.Refused(g.at, node, code)}
}

// fenced is an operation in one transaction with its checks.
func fenced[T any](o Op[T], g guard) Op[T] {
	all := Multi(append(g.checks(), o.changes...))
	f := Op[T]{code: all.code, path: o.path, write: true, err: all.err, changes: o.changes, encode: all.encode}
	f.decode = func(a *answer) (none T) {
		if node, code := g.failed(a); code != codeOK {
			a.err, a.fenced = g.refusal(node, code), true
			return none
		}
		own := a.own(o.code)
		if own.code != codeOK {
			a.err = a.root.refusal(own.code, o.code, o.path)
			return none
		}
		v := o.decode(own)
		a.err = own.err
		return v
	}
	if o.effect != nil {
		f.effect = func(l *link, a *answer) {
			if a.code != codeOK {
				return
			}
			if _, code := g.failed(a); code == codeOK {
				o.effect(l, a.own(o.code))
			}
		}
	}
	return f
}

// own is the answer behind those to the checks, as it would have come to an operation of
// this code alone.
func (a *answer) own(code int32) *answer {
	own := &answer{Decoder: a.Decoder, zxid: a.zxid, root: a.root}
	if code != jute.OpMulti && a.part() == opError { // alone, it has no header
		own.code = cmp.Or(Code(a.Int()), runtimeInconsistency)
	}
	return own
}

// sendChecked sends an operation that no multi can hold as soon as its checks have been
// answered, on the same connection or not at all. The lock may go in between.
func sendChecked[T any](ctx context.Context, to target, o Op[T], g guard) *Pending[T] {
	checks := Multi(g.checks())
	checks.path = o.path
	check, p := bind(untripped(ctx), to, checks), bind(ctx, to, o)
	check.call.then = func(r reply) { // where answers are received, or where it turns out that none will come
		a := answerTo(r.Reply, to.root)
		var node string
		code := Code(r.Code)
		if r.err == nil && code == codeOK {
			node, code = g.failed(a)
		}
		switch {
		case r.err != nil:
			p.call.finish(reply{err: p.call.unsent(r.err), fate: notSent, cut: true})
		case node != "":
			p.call.finish(reply{err: g.refusal(node, code), fate: rejected})
		case code != codeOK:
			p.call.finish(reply{err: to.root.refusal(code, o.code, o.path), fate: notSent})
		case a.Err() != nil:
			p.call.finish(reply{err: a.Err(), fate: notSent})
		default:
			to.send(p.call)
			p.call.trip.begun()
		}
	}
	to.send(check.call)
	return p
}
