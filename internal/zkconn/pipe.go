package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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

// maxSeveral is how many bytes the answers to requests that go together may take.
const maxSeveral = 96 << 20

// Several are requests that go together and are waited for together. That costs much less
// than one by one: they share what keeps the books of a request, and wake who waits once.
type Several[T any] struct {
	pending *Pending[[]wire.Part]
	paths   []string
	ask     func(path string) Op[T]
	decode  func(*answer) T
	slowed  bool
	size    int // bytes of the answers that have been read
}

// AddEach sends an operation for each path, after those that were added before. All have
// the same type.
func AddEach[T any](p *Pipe, paths []string, ask func(path string) Op[T]) *Several[T] {
	s := &Several[T]{paths: paths, ask: ask}
	all := Op[[]wire.Part]{path: paths[0], decode: func(a *answer) []wire.Part { return a.parts }}
	size := 0
	for _, path := range paths {
		size += len(path) + len(p.to.root) + 17
	}
	frames, effects := jute.Encoder{B: make([]byte, 0, size)}, false
	for _, path := range paths {
		o := ask(path)
		o.frame(&frames, p.to.root)
		effects = effects || o.effect != nil
		all.code, all.err, s.decode = o.code, cmp.Or(all.err, o.err), o.decode
	}
	s.pending = bind(p.ctx, p.to, all)
	if all.err != nil {
		return s
	}
	c := s.pending.call
	c.Frames, c.Several = frames.B, len(paths)
	if effects {
		c.Answered = func(at int, r wire.Reply) {
			if o := ask(paths[at]); o.effect != nil {
				o.effect(p.to.l, answerTo(r, p.to.root))
			}
		}
	}
	p.to.send(c)
	return s
}

// Ready is that of Pending.
func (s *Several[T]) Ready() bool { return s.pending.Ready() }

// Slowed is that of Pending, of any of them.
func (s *Several[T]) Slowed() bool { return s.slowed }

// Len is how many there are.
func (s *Several[T]) Len() int { return len(s.paths) }

// Each waits for the answers to all, and has take note each in its turn, or why it was
// refused. When ctx ends first, it reports whether they had been sent. What the server has
// no time for is sent again.
func (s *Several[T]) Each(ctx context.Context, take func(v T, refusal error)) error {
	replies, err := s.pending.Wait(ctx)
	if err != nil {
		return err
	}
	a := answerTo(wire.Reply{}, s.pending.root)
	a.more = len(replies)
	for i, r := range replies {
		replies[i].Body = nil // which has been read when the next one is
		v, err := s.one(ctx, a, i, r)
		if err != nil && !errors.As(err, new(*Error)) {
			return err
		}
		take(v, err)
	}
	return nil
}

// decoded reads an answer. All of them are in memory until the last one has been read.
func (s *Several[T]) decoded(a *answer) (none T, err error) {
	if s.size += len(a.Rest()); s.size > maxSeveral {
		return none, fmt.Errorf("the server's replies to %d requests are larger than %d MiB in total", len(s.paths), maxSeveral>>20)
	}
	return read(a, s.decode)
}

// one reads an answer by way of a, or has the request sent again alone.
func (s *Several[T]) one(ctx context.Context, a *answer, at int, r wire.Part) (none T, err error) {
	if r.Code == wire.OK {
		a.err = nil
		a.Next(r.Body)
		return s.decoded(a)
	}
	o := s.ask(s.paths[at])
	err = s.pending.root.refusal(Code(r.Code), o.code, o.path)
	if r.Code != wire.Throttled {
		return none, err
	}
	c := s.pending.call
	alone := &Pending[T]{call: c, root: s.pending.root, decode: func(own *answer) T { // within the same limits
		a.err = nil
		a.Next(own.Rest())
		v, err := s.decoded(a)
		own.err = err
		return v
	}}
	alone.renew = func() *call { return bind(c.Context, c.to, o).call }
	s.slowed = true
	return alone.again(ctx, none, err)
}
