package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
)

// A Fence makes writes depend on znodes: a write takes effect only if they exist. The server
// checks them in one transaction with the write. The methods may be called from any goroutine.
type Fence interface {
	// Nodes returns the znodes, by the server's paths, that must exist in the ensemble
	// of a session. With a *FencedError nothing may be written.
	Nodes(ctx context.Context, at Epoch) ([]string, error)
	// Refused returns the error of a write that was rejected because the check of a znode
	// failed: with NoNode if the znode does not exist, with NoAuth if it is unreadable. It must
	// not wait for a server.
	Refused(at Ensemble, node string, code Code) error
	// For returns the fence of another session of this program.
	For(s *Session) Fence
}

// SetFence fences all writes through the Session, a Pipe or a Transaction. Call it before
// anything is sent. It does not apply to a Pinned, nor to the sessions of Another and Second.
func (s *Session) SetFence(f Fence) { s.fence = f }

// Unfenced returns a Client whose writes are not fenced.
func (c Client) Unfenced() Client {
	c.unfenced = true
	return c
}

// Fenced reports whether writes are fenced now. With an error, they may be.
func (s *Session) Fenced(ctx context.Context) (bool, error) {
	g, err := currentGuard(ctx, s.Client, s.current())
	return len(g.nodes) > 0, err
}

// A FencedError reports a write that the Fence rejected.
type FencedError struct {
	Err error // of Fence.Refused, or the reason why Fence.Nodes cannot name the znodes
}

func (e *FencedError) Error() string { return e.Err.Error() }

// Unwrap returns the Fence's error, which is not a server's refusal of the write.
func (e *FencedError) Unwrap() error { return e.Err }

// A guard is the znodes that writes in one ensemble depend on.
type guard struct {
	fence Fence
	at    Ensemble
	nodes []string
}

// currentGuard returns the guard of a Sender's writes; with no nodes if there is no Fence.
func currentGuard(ctx context.Context, s Sender, l *link) (g guard, err error) {
	if g.fence, g.at = s.fencedBy(), (Ensemble{l}); g.fence != nil {
		g.nodes, err = g.fence.Nodes(untripped(ctx), g.at.Epoch()) // if the epoch has changed meanwhile, the sender's connection is dead
	}
	return g, err
}

// guards reports whether operations with this opcode are fenced: all writes are, if g has nodes.
func (g guard) guards(code int32) bool { return len(g.nodes) > 0 && jute.Writes(code) }

// checks returns the first changes of a fenced multi.
func (g guard) checks() []Change {
	all := make([]Change, len(g.nodes))
	for i, node := range g.nodes {
		all[i] = check(node, -1)
		all[i].absolute = true
	}
	return all
}

// failed reads the answers to the checks, and returns the znode of the check that failed and the
// code; codeOK if none failed. It may run in the receiving goroutine, so it sends nothing.
func (g guard) failed(a *answer) (node string, code Code) {
	for _, c := range g.checks() {
		_, err := c.result(a, a.part())
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.Code != runtimeInconsistency {
			return c.path, refusal.Code
		}
	}
	return "", codeOK
}

// refusal returns the error of a write whose check failed.
func (g guard) refusal(node string, code Code) error {
	return &FencedError{g.fence.Refused(g.at, node, code)}
}

// fenced returns an operation that carries out o and the checks of g in one transaction.
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

// own returns the answer after those to the checks, as the server would send it to a single
// operation with this opcode.
func (a *answer) own(code int32) *answer {
	own := &answer{Decoder: a.Decoder, zxid: a.zxid, root: a.root}
	if code != jute.OpMulti && a.part() == opError { // alone, it has no header
		own.code = cmp.Or(Code(a.Int()), runtimeInconsistency)
	}
	return own
}

// sendChecked sends an operation that cannot be part of a multi once the server has confirmed
// its checks, on the same connection or not at all. The lock may be lost between the two.
func sendChecked[T any](ctx context.Context, to target, o Op[T], g guard) *Pending[T] {
	checks := Multi(g.checks())
	checks.path = o.path
	check, p := bind(untripped(ctx), to, checks), bind(ctx, to, o)
	check.call.then = func(r reply) { // runs in the receiving goroutine, or where the connection ends
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
