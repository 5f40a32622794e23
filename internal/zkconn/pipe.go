package zkconn

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Pipe sends many requests without waiting for each answer. It is bound to one
// TCP connection: the server carries its requests out in the order in which they
// were sent, and when the connection breaks, all that follows fails. A Pipe is
// for one goroutine.
type Pipe struct {
	c    Client
	l    *link
	k    *frameConn
	held []*call
	size int
}

// flushAt is how many bytes of requests are gathered into one write.
const flushAt = 32 << 10

// Pipe binds to the present connection.
func (c Client) Pipe(ctx context.Context, path string) (*Pipe, error) {
	l := c.s.current()
	k, err := l.await(ctx, path, false)
	if err != nil {
		return nil, err
	}
	return &Pipe{c: c, l: l, k: k}, nil
}

// Pending is an answer that is still to come.
type Pending[T any] struct {
	p      *Pipe
	call   *call
	decode func(*jute.Decoder) (T, error)
}

// Wait returns the answer. It sends what the Pipe still holds back.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	var none T
	p.p.Flush()
	r, err := p.call.wait(ctx)
	if err != nil {
		return none, err
	}
	if r.code != OK {
		return none, &Error{r.code, p.call.path}
	}
	return p.decode(jute.NewDecoder(r.body))
}

// Flush sends the requests gathered so far.
func (p *Pipe) Flush() {
	if len(p.held) > 0 {
		p.k.send(p.held...)
		p.held, p.size = nil, 0
	}
}

func (p *Pipe) add(r request) *call {
	c := p.c.call(p.l, r)
	p.held = append(p.held, c)
	if p.size += len(c.body); p.size >= flushAt {
		p.Flush()
	}
	return c
}

// Children asks for the names of a znode's children. With watch, a child watch is left.
func (p *Pipe) Children(path string, watch bool) *Pending[[]string] {
	c := p.add(request{op: jute.OpGetChildren, path: path, encode: pathFlag(watch), hook: watchHook(watch, ChildWatch, false)})
	return &Pending[[]string]{p, c, func(d *jute.Decoder) ([]string, error) { return d.Strings(), d.Err() }}
}

// Node is a znode's data and Stat.
type Node struct {
	Data []byte // nil when it has none (null)
	Stat *zk.Stat
}

// Get asks for a znode's data and Stat.
func (p *Pipe) Get(path string) *Pending[Node] {
	c := p.add(request{op: jute.OpGetData, path: path, encode: pathFlag(false)})
	return &Pending[Node]{p, c, func(d *jute.Decoder) (Node, error) {
		n := Node{Data: d.Buffer()}
		n.Stat = readStat(d)
		return n, d.Err()
	}}
}

// Exists asks for a znode's Stat, which needs no permission.
func (p *Pipe) Exists(path string) *Pending[*zk.Stat] {
	c := p.add(request{op: jute.OpExists, path: path, encode: pathFlag(false)})
	return &Pending[*zk.Stat]{p, c, func(d *jute.Decoder) (*zk.Stat, error) { return readStat(d), d.Err() }}
}

// Listing is the children of one znode, or why they could not be read.
type Listing struct {
	Names []string
	Err   error
}

// MultiChildren asks for the children of many znodes in one request, which
// servers from 3.6 on understand. The answer has one Listing for each path.
func (p *Pipe) MultiChildren(paths []string) *Pending[[]Listing] {
	encode := func(e *jute.Encoder, _ string) {
		for _, path := range paths {
			multiHeader(e, jute.OpGetChildren, false)
			e.String(p.c.serverPath(p.l, path))
			e.Bool(false)
		}
		multiHeader(e, -1, true)
	}
	c := p.add(request{op: jute.OpMultiRead, path: paths[0], encode: encode})
	return &Pending[[]Listing]{p, c, func(d *jute.Decoder) ([]Listing, error) {
		out := make([]Listing, len(paths))
		for i := range out {
			op, _, _ := d.Int(), d.Bool(), d.Int()
			if op == -1 {
				out[i].Err = &Error{Code(d.Int()), paths[i]}
				continue
			}
			out[i].Names = d.Strings()
		}
		return out, d.Err()
	}}
}

func multiHeader(e *jute.Encoder, op int32, done bool) {
	e.Int(op)
	e.Bool(done)
	e.Int(-1)
}

// MultiDelete asks to remove all of these znodes or none. The answer is nil or
// the refusal of the first that could not be removed.
func (p *Pipe) MultiDelete(paths []string) *Pending[struct{}] {
	encode := func(e *jute.Encoder, _ string) {
		for _, path := range paths {
			multiHeader(e, jute.OpDelete, false)
			encodeDelete(-1)(e, p.c.serverPath(p.l, path))
		}
		multiHeader(e, -1, true)
	}
	hook := func(l *link, _ string, r *reply) {
		if r.code != OK || len(r.body) >= 4 && jute.NewDecoder(r.body).Int() == -1 {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, path := range paths {
			delete(l.ephemerals, p.c.serverPath(l, path))
		}
	}
	c := p.add(request{op: jute.OpMulti, path: paths[0], write: true, encode: encode, hook: hook})
	return &Pending[struct{}]{p, c, func(d *jute.Decoder) (struct{}, error) { return struct{}{}, multiError(d, paths) }}
}

// multiError finds the culprit among the results of a multi that was rolled
// back: those before it carry OK, those after it RuntimeInconsistency.
func multiError(d *jute.Decoder, paths []string) error {
	for i := range paths {
		op, _, _ := d.Int(), d.Bool(), d.Int()
		if op != -1 {
			return d.Err() // every result is of its operation's kind: all was done
		}
		if code := Code(d.Int()); code != OK && code != RuntimeInconsistency {
			return &Error{code, paths[i]}
		}
	}
	if d.Err() != nil {
		return d.Err()
	}
	return &Error{RuntimeInconsistency, paths[0]}
}

// Delete asks to remove one znode, whatever its version.
func (p *Pipe) Delete(path string) *Pending[struct{}] {
	c := p.add(request{op: jute.OpDelete, path: path, write: true, encode: encodeDelete(-1), hook: forgetEphemeral})
	return &Pending[struct{}]{p, c, func(*jute.Decoder) (struct{}, error) { return struct{}{}, nil }}
}

// SetACL asks to write one znode's access control list.
func (p *Pipe) SetACL(path string, acl []zk.ACL, version int32) *Pending[*zk.Stat] {
	c := p.add(request{op: jute.OpSetACL, path: path, write: true, encode: encodeSetACL(acl, version)})
	return &Pending[*zk.Stat]{p, c, func(d *jute.Decoder) (*zk.Stat, error) { return readStat(d), d.Err() }}
}

// Create asks to make one persistent znode.
func (p *Pipe) Create(path string, data []byte, acl []zk.ACL) *Pending[struct{}] {
	encode := func(e *jute.Encoder, server string) {
		encodeCreate(e, server, &zk.CreateRequest{Data: data, Acl: acl})
	}
	c := p.add(request{op: jute.OpCreate, path: path, write: true, encode: encode})
	return &Pending[struct{}]{p, c, func(*jute.Decoder) (struct{}, error) { return struct{}{}, nil }}
}
