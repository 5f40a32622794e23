package zkconn

import (
	"cmp"
	"context"
	"errors"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A Pipe sends many operations on one TCP connection without waiting for each answer. The server
// carries out the operations in the order in which they were added, except that an operation
// which the server throttles is sent again later. Adding an operation never blocks, so callers
// that add many must wait for answers in between. Once the connection is lost, all later
// operations fail. Once the Pipe's context has ended, the Pipe sends nothing more.
type Pipe struct {
	ctx context.Context
	c   Client
	to  target
	g   guard
}

// Pipe returns a Pipe on the current connection. If there is no connection, it waits for one. path
// is the path for error messages.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	to, err := c.connection(ctx, path)
	if err != nil {
		return nil, err
	}
	g, err := currentGuard(ctx, c, to.l)
	return &Pipe{ctx, c, to, g}, err
}

// Add sends the operation o after all operations that were added to the Pipe earlier. It does not
// wait for the answer.
func Add[T any](p *Pipe, o Op[T]) *Pending[T] {
	if o.err != nil {
		return bind(p.ctx, p.to, o)
	}
	return dispatch(p.ctx, p.to, o, p.g)
}

// AddEach sends one operation for each path, after all operations that were added earlier. ask
// returns the operation for a path. All operations must be of the same type. AddEach costs much
// less time and memory than a call of Add for each path.
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
	s.call = newCall(p.ctx, p.to, &s.op.operation)
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

// HasMultiRead reports whether the pipe's server supports multiRead, which is new in ZooKeeper 3.6.
// It returns false for servers of other products or of unknown version, because they might close
// the connection when they receive a multiRead. If a server that claims to support multiRead closes
// the connection, the pipe continues on the next connection. Therefore HasMultiRead must be called
// only when all earlier operations have been answered, and the connection may be a different one
// afterwards.
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

// KnownOlder reports whether the pipe's server identifies itself as a product other than ZooKeeper,
// or as a ZooKeeper older than 3.minor. Such a server lacks the features of ZooKeeper 3.minor. It
// might respond to a request that it does not know by closing the connection and ending the session.
func (p *Pipe) KnownOlder(ctx context.Context, minor int) bool {
	v, err := p.to.Version(ctx)
	return err == nil && v.Product != "" && !v.AtLeast(minor)
}
