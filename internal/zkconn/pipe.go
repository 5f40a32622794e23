package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A Pipe sends many operations without waiting for each answer. It is bound to one TCP
// connection: the server carries out the operations in the order in which they were added,
// and once the connection is lost, all later ones fail. Adding never blocks, so callers that
// add many must wait for answers in between. Nothing is sent once the Pipe's context has
// ended. An operation that the server throttles is sent again by Wait, and then comes after
// the ones that were sent in the meantime.
type Pipe struct {
	ctx context.Context
	c   Client
	to  target
	g   guard
}

// Pipe returns a Pipe on the current connection, and waits for one if there is none. path is
// for its error.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	to, err := c.connection(ctx, path)
	if err != nil {
		return nil, err
	}
	g, err := currentGuard(ctx, c, to.l)
	return &Pipe{ctx, c, to, g}, err
}

// Add sends an operation after those that were added before.
func Add[T any](p *Pipe, o Op[T]) *Pending[T] {
	if o.err != nil {
		return bind(p.ctx, p.to, o)
	}
	return dispatch(p.ctx, p.to, o, p.g)
}

// AddEach sends an operation for each path, after those that were added before. All must have
// the same type. This costs much less than an Add for each.
func AddEach[T any](p *Pipe, paths []string, ask func(path string) Op[T]) *Several[T] {
	s := &Several[T]{batch[T]{paths: paths, ask: ask, repeats: true}}
	size := 0
	for _, path := range paths {
		size += len(path) + len(p.to.root) + 17
	}
	var err error
	frames, effects := jute.Encoder{B: make([]byte, 0, size)}, false
	for _, path := range paths {
		s.op = ask(path)
		s.op.frame(&frames, p.to.root)
		effects = effects || s.op.effect != nil
		err = cmp.Or(err, s.op.err)
	}
	s.op.path, s.op.err, s.op.effect = paths[0], err, nil
	s.call = newCall(p.ctx, p.to, &s.op)
	if err != nil {
		return s
	}
	s.call.Frames, s.call.Several = frames.B, len(paths)
	if effects {
		s.call.Answered = func(at int, r wire.Reply) {
			if o := ask(paths[at]); o.effect != nil {
				o.effect(p.to.l, answerTo(r, p.to.root))
			}
		}
	}
	p.to.send(s.call)
	return s
}

// HasMultiRead reports whether the pipe's server supports multiRead, as ZooKeeper 3.6 and
// later do. Another server might drop the connection over it, so a server of another product,
// or of unknown version, counts as one without it. If a server that claims to support multiRead
// drops the connection, the pipe continues on the next connection. So call HasMultiRead only
// when all earlier operations have been answered, and do not rely on one connection.
func (p *Pipe) HasMultiRead(ctx context.Context) bool {
	if l := p.to.l; underLock(l, func() bool { return l.hangUps[jute.OpMultiRead] > 0 }) {
		return false
	}
	v, err := p.to.Version(ctx)
	if err != nil || !v.AtLeast(6) {
		return false
	}
	if p.to.Passed(jute.OpMultiRead) {
		return true
	}
	_, err = begin(untripped(ctx), p.to, MultiGetChildren([]string{"/"})).Wait(ctx)
	if _, hungUp := errors.AsType[*hangUp](err); !hungUp {
		return !errors.Is(err, Unimplemented)
	}
	if to, err := p.c.connection(ctx, ""); err == nil && to.l == p.to.l {
		p.to = to
	}
	return false
}

// LacksWhoAmI reports whether the pipe's server says that it is not ZooKeeper, or older than
// 3.7. Such a server might drop the connection over whoAmI, and end the session.
func (p *Pipe) LacksWhoAmI(ctx context.Context) bool {
	v, err := p.to.Version(ctx)
	return err == nil && v.Product != "" && !v.AtLeast(7)
}
