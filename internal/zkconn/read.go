package zkconn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Node is a znode's data and Stat.
type Node struct {
	Data []byte // nil when it has none (null)
	Stat *zk.Stat
}

func (a *answer) node() Node {
	n := Node{Data: a.Buffer()}
	n.Stat = a.Stat()
	return n
}

// names is the names of a znode's children. One that no child can have is an error: it
// would lead to another znode, or to none.
func (a *answer) names() []string {
	names := a.Strings()
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 {
			a.err = fmt.Errorf("the server sent a malformed reply: %.200q is not a valid name for a child", name)
			return nil
		}
	}
	return names
}

// Listing is the children of one znode, or why they could not be read.
type Listing struct {
	Names []string
	Err   error
}

// Reading is one znode, or why it could not be read.
type Reading struct {
	Node
	Err error
}

// asking is an operation whose request is a path and what stands behind it, which may
// be nil.
func asking[T any](code int32, path string, decode func(*answer) T, rest func(*jute.Encoder)) op[T] {
	return op[T]{code: code, path: path, err: ValidatePath(path, false), decode: decode, rest: rest}
}

func watched(e *jute.Encoder)   { e.Bool(true) }
func unwatched(e *jute.Encoder) { e.Bool(false) }

// watching is an operation whose request is a path and whether to leave a watch.
// The watch is on the creation when exists finds no znode.
func watching[T any](code int32, path string, w watcher, kind watchKind, decode func(*answer) T) op[T] {
	if w == nil {
		return asking(code, path, decode, unwatched)
	}
	o := asking(code, path, decode, watched)
	o.effect = func(l *link, a *answer) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case a.code == codeOK:
			w(l, watchKey{kind, a.root.server(path)})
		case a.code == NoNode && code == jute.OpExists:
			w(l, watchKey{existWatch, a.root.server(path)})
		}
	}
	return o
}

func getData(path string, w watcher) op[Node] {
	return watching(jute.OpGetData, path, w, dataWatch, (*answer).node)
}

func exists(path string, w watcher) op[*zk.Stat] {
	return watching(jute.OpExists, path, w, dataWatch, (*answer).Stat)
}

func getChildren(path string, w watcher) op[[]string] {
	return watching(jute.OpGetChildren, path, w, childWatch, (*answer).names)
}

// Listed is a znode's children and its Stat.
type Listed struct {
	Names []string
	Stat  *zk.Stat
}

func list(path string, w watcher) op[Listed] {
	return watching(jute.OpGetChildren2, path, w, childWatch, func(a *answer) Listed {
		names := a.names()
		return Listed{names, a.Stat()}
	})
}

// Access is a znode's access control list, which is not to be changed, and its Stat.
type Access struct {
	ACL  []zk.ACL
	Stat *zk.Stat
}

// accessList is that of the answer. Answers that are read one after the other share equal
// lists: nearly all znodes of a tree have one of a few.
func (a *answer) accessList() []zk.ACL {
	b := a.Rest()
	if a.acl != nil && bytes.HasPrefix(b, a.aclBytes) {
		a.Next(b[len(a.aclBytes):])
		return a.acl
	}
	acl := a.ACL()
	if a.Err() == nil {
		a.acl, a.aclBytes = acl, b[:len(b)-len(a.Rest())]
	}
	return acl
}

func getACL(path string) op[Access] {
	return asking(jute.OpGetACL, path, func(a *answer) Access {
		return Access{a.accessList(), a.Stat()}
	}, nil)
}

func syncPath(ctx context.Context, s sender, path string) error {
	_, err := do(ctx, s, asking(jute.OpSync, path, (*answer).nothing, nil))
	return err
}

// multiChildren lists many znodes by one multiRead.
func multiChildren(paths []string) op[[]Listing] {
	return multiRead(jute.OpGetChildren, paths, func(a *answer, err error) Listing {
		if err != nil {
			return Listing{Err: err}
		}
		return Listing{Names: a.names()}
	})
}

// multiGet reads many znodes by one multiRead.
func multiGet(paths []string) op[[]Reading] {
	return multiRead(jute.OpGetData, paths, func(a *answer, err error) Reading {
		if err != nil {
			return Reading{Err: err}
		}
		return Reading{Node: a.node()}
	})
}

// multiRead asks the same of many znodes in one request. one reads what became of
// the next of them, a refusal included.
func multiRead[T any](code int32, paths []string, one func(*answer, error) T) op[[]T] {
	return op[[]T]{
		code: jute.OpMultiRead, path: paths[0],
		encode: func(e *jute.Encoder, root chroot) {
			size := 0
			for _, path := range paths {
				size += len(path) + len(root) + 14
			}
			e.B = slices.Grow(e.B, size+9)
			for _, path := range paths {
				e.MultiHeader(code, false, -1)
				e.String(root.server(path))
				e.Bool(false)
			}
			e.MultiHeader(-1, true, -1)
		},
		decode: func(a *answer) []T {
			out := make([]T, len(paths))
			a.more = len(paths)
			for i, path := range paths {
				var err error
				switch op, _, failed := a.MultiPart(); {
				case op == opError:
					err = a.root.refusal(Code(a.Int()), code, path)
				case failed != 0: // servers of others keep the type, and have no body
					err = a.root.refusal(Code(failed), code, path)
				}
				out[i] = one(a, err)
			}
			return out
		},
	}
}

// maxSeveral is how many bytes the answers to requests that go together may take.
const maxSeveral = 96 << 20

// Several are requests that go together and are waited for together. That costs much less
// than one by one: they share what keeps the books of a request, and wake who waits once.
type Several[T any] struct {
	pending *Pending[[]wire.Part]
	paths   []string
	ask     func(path string) op[T]
	decode  func(*answer) T
	slowed  bool
	size    int // bytes of the answers that have been read
}

// severally sends several requests behind those made before.
func severally[T any](p *Pipe, paths []string, ask func(path string) op[T]) *Several[T] {
	s := &Several[T]{paths: paths, ask: ask}
	all := op[[]wire.Part]{path: paths[0], decode: func(a *answer) []wire.Part { return a.parts }}
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
