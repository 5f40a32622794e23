package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
)

// A Fence makes writes depend on certain znodes: a write takes effect only if these znodes exist.
// The server checks that in the same transaction as the write. The methods may be called from any
// goroutine.
type Fence interface {
	// Nodes returns the paths, including the chroot, of the znodes that must exist for a
	// write in the given session. If Nodes returns a *FencedError, no write may be sent.
	Nodes(ctx context.Context, at Epoch) ([]string, error)
	// Refused returns the error for a write that was rejected because the check of a znode
	// failed. code is NoNode if the znode does not exist, or NoAuth if it is unreadable.
	// Refused must not wait for a server.
	Refused(at Ensemble, node string, code Code) error
	// For returns a Fence for s, a second session of this program. It makes the writes through s
	// depend on the same znodes.
	For(s *Session) Fence
}

// SetFence makes f the Fence of all writes through the Session, its Pipes and its Transactions.
// It must be called before any request is sent. The Fence does not apply to writes through a
// Pinned, or through the sessions that Another and Second return.
func (s *Session) SetFence(f Fence) { s.fence = f }

// Unfenced returns a Client like c whose writes do not depend on the Fence.
func (c Client) Unfenced() Client {
	c.unfenced = true
	return c
}

// Fenced reports whether writes through the Session currently depend on a Fence. After an error,
// this is unknown.
func (s *Session) Fenced(ctx context.Context) (bool, error) {
	g, err := currentGuard(ctx, s.Client, s.current())
	return len(g.nodes) > 0, err
}

// A FencedError reports that a write was rejected because of the Fence.
type FencedError struct {
	Err error // the error of Fence.Refused, or the reason why Fence.Nodes cannot name the znodes
}

func (e *FencedError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the Fence, not a server's refusal of the write.
func (e *FencedError) Unwrap() error { return e.Err }

// A guard contains the znodes that writes to one ensemble depend on.
type guard struct {
	fence Fence
	at    Ensemble
	nodes []string
}

// currentGuard returns the guard for writes through s. If s has no Fence, the guard has no nodes.
func currentGuard(ctx context.Context, s Sender, l *link) (g guard, err error) {
	if g.fence, g.at = s.fencedBy(), (Ensemble{l}); g.fence != nil {
		// If a new session has just begun, Nodes is called for that session. But the sender's
		// connection belongs to the old session and is closed, so no write is sent.
		g.nodes, err = g.fence.Nodes(untripped(ctx), g.at.Epoch())
	}
	return g, err
}

// guards reports whether operations with the given opcode need the checks of g. If g has nodes, all
// writes need them.
func (g guard) guards(code int32) bool { return len(g.nodes) > 0 && jute.Writes(code) }

// checks returns the checks with which a fenced multi begins: one for each znode of g.
func (g guard) checks() []Change {
	all := make([]Change, len(g.nodes))
	for i, node := range g.nodes {
		all[i] = check(node, -1)
		all[i].absolute = true
	}
	return all
}

// failed reads the answers to the checks of g. It returns the first znode whose check failed, and
// the error code, or codeOK if no check failed. It may run in the receiving goroutine, so it must
// not send a request.
func (g guard) failed(a *answer) (node string, code Code) {
	for _, c := range g.checks() {
		_, err := c.result(a, a.part())
		if refusal, ok := errors.AsType[*Error](err); ok && refusal.Code != runtimeInconsistency {
			return c.path, refusal.Code
		}
	}
	return "", codeOK
}

// refusal returns the error for a write that was rejected because the check of a znode failed.
func (g guard) refusal(node string, code Code) error {
	return &FencedError{g.fence.Refused(g.at, node, code)}
}

// fenced returns an operation that carries out the checks of g and the operation o in one
// transaction.
func fenced[T any](o Op[T], g guard) Op[T] {
	all := Multi(append(g.checks(), o.changes...))
	f := Op[T]{operation: operation{
		code: all.code, path: o.path, write: all.write, err: all.err, changes: o.changes, encode: all.encode,
	}}
	f.decode = func(a *answer) (none T) {
		if node, code := g.failed(a); code != codeOK {
			a.err, a.fenced = g.refusal(node, code), true
			return none
		}
		own := a.own(o.code)
		if own.code != codeOK {
			a.err = a.root.refusal(own.code, o.kind())
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

// own returns the part of the answer to a fenced multi that follows the answers to the checks. It
// can be decoded like the answer to a single operation with the opcode code.
func (a *answer) own(code int32) *answer {
	own := &answer{Decoder: a.Decoder, zxid: a.zxid, root: a.root}
	if code != jute.OpMulti && a.part() == opError { // skip the header, which only answers to multis have
		own.code = cmp.Or(Code(a.Int()), runtimeInconsistency)
	}
	return own
}

// sendChecked sends the call c of an operation that a multi cannot contain. k describes the
// operation. It first sends the checks of g. When the server has confirmed them, it sends c on the
// same connection. The checked znodes
// may be deleted in between, for example because a lock is lost.
func sendChecked(ctx context.Context, c *call, k kind, g guard) {
	to, checks := c.to, Multi(g.checks())
	checks.path = k.path
	check := newCall(Apart(ctx), to, &checks.operation)
	check.then = func(r reply) { // runs in the receiving goroutine, or in the goroutine that ends the connection
		a := answerTo(r.Reply, to.root)
		var node string
		code := Code(r.Code)
		if r.err == nil && code == codeOK {
			node, code = g.failed(a)
		}
		switch {
		case r.err != nil:
			c.finish(reply{err: c.unsent(r.err), fate: notSent, cut: true})
		case node != "":
			c.finish(reply{err: g.refusal(node, code), fate: rejected})
		case code != codeOK:
			c.finish(reply{err: to.root.refusal(code, k), fate: notSent})
		case a.Err() != nil:
			c.finish(reply{err: a.Err(), fate: notSent})
		default:
			to.send(c)
			c.trip.begun()
		}
	}
	to.send(check)
}
