package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Pipe sends many requests without waiting for each answer. It is bound to one
// TCP connection: the server carries its requests out in the order in which they
// were added, and when the connection breaks, all that follows fails. No function
// blocks, so whoever adds very many waits for some answers in between; and none
// is sent once the context the Pipe was made with has ended. One that a busy server
// refuses is sent again by its Wait, behind what was sent meanwhile.
type Pipe struct {
	ctx context.Context
	c   Client
	to  target
	g   guard
}

// Pipe binds to the present connection.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	to, err := c.connection(ctx, path)
	if err != nil {
		return nil, err
	}
	g, err := fencing(ctx, c, to.l)
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

// HasMultiRead reports whether the server of this pipe knows multiRead, as ZooKeeper
// from 3.6 on does. Others might drop the connection over it, so a server of another
// product or without a known version counts as old. One that drops the connection although
// it claims to know multiRead costs the pipe's connection: the pipe goes on with the next
// one, so all that was asked for before must have been answered, and nothing may depend
// on its being the same.
func (p *Pipe) HasMultiRead(ctx context.Context) bool {
	if l := p.to.l; look(l, func() bool { return l.hangUps[jute.OpMultiRead] > 0 }) {
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

// LacksWhoAmI reports whether the server of this pipe says that it is too old to know
// whoAmI, or not ZooKeeper. It might drop the connection over it, and end the session.
func (p *Pipe) LacksWhoAmI(ctx context.Context) bool {
	v, err := p.to.Version(ctx)
	return err == nil && v.Product != "" && !v.AtLeast(7)
}
