package zkconn

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Client sends single requests and waits for their answers. Paths are given and
// returned without the chroot. Every method checks the path by the Java client's
// rules first. Errors are *Error for a refusal, *NoServerError when nothing was
// sent, *LostError when the connection broke in between, ErrNotConnected after
// Close, and the context's.
type Client struct {
	s        *Session
	absolute bool
}

// request is one operation before it is bound to a connection.
type request struct {
	op         int32
	path       string
	write      bool
	sequential bool
	encode     func(e *jute.Encoder, serverPath string)
	hook       func(l *link, serverPath string, r *reply) // as call.hook
}

func (c Client) serverPath(l *link, path string) string {
	if c.absolute {
		return path
	}
	return l.serverPath(path)
}

func (c Client) clientPath(l *link, path string) string {
	if c.absolute {
		return path
	}
	return l.clientPath(path)
}

func (c Client) call(l *link, r request) *call {
	var e jute.Encoder
	path := c.serverPath(l, r.path)
	r.encode(&e, path)
	out := &call{op: r.op, body: e.B, path: r.path, write: r.write, done: make(chan reply, 1)}
	if r.hook != nil {
		out.hook = func(rep *reply) { r.hook(l, path, rep) }
	}
	return out
}

// wait returns the reply, or the error of a request that has none.
func (c *call) wait(ctx context.Context) (reply, error) {
	select {
	case r := <-c.done:
		return r, r.err
	case <-ctx.Done():
		select {
		case r := <-c.done: // it is here already
			return r, r.err
		default:
		}
		if c.write {
			return reply{}, &AbandonedError{Path: c.path, Cause: context.Cause(ctx)}
		}
		return reply{}, context.Cause(ctx)
	}
}

// AbandonedError says that the wait for a write's answer was given up; the write
// may still take effect.
type AbandonedError struct {
	Path  string
	Cause error
}

func (e *AbandonedError) Error() string {
	return "interrupted while waiting for the answer for " + e.Path + ": it is unknown whether it took effect"
}

// Unwrap gives the context's error.
func (e *AbandonedError) Unwrap() error { return e.Cause }

// do sends one request and returns a decoder of its answer.
func (c Client) do(ctx context.Context, r request) (*jute.Decoder, *link, error) {
	if err := ValidatePath(r.path, r.sequential); err != nil {
		return nil, nil, err
	}
	return c.send(ctx, r)
}

func (c Client) send(ctx context.Context, r request) (*jute.Decoder, *link, error) {
	l := c.s.current()
	k, err := l.await(ctx, r.path, false)
	if err != nil {
		return nil, nil, err
	}
	call := c.call(l, r)
	call.ctx = ctx
	go k.send(call) // a write can block; it ends by its own deadline, and call.done tells how
	rep, err := call.wait(ctx)
	if err != nil {
		return nil, nil, err
	}
	if rep.code != OK {
		return nil, nil, &Error{rep.code, r.path}
	}
	return jute.NewDecoder(rep.body), l, nil
}

func readStat(d *jute.Decoder) *zk.Stat {
	return &zk.Stat{
		Czxid: d.Long(), Mzxid: d.Long(), Ctime: d.Long(), Mtime: d.Long(),
		Version: d.Int(), Cversion: d.Int(), Aversion: d.Int(),
		EphemeralOwner: d.Long(), DataLength: d.Int(), NumChildren: d.Int(), Pzxid: d.Long(),
	}
}

func writeACL(e *jute.Encoder, acl []zk.ACL) {
	e.Int(int32(len(acl)))
	for _, a := range acl {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

func readACL(d *jute.Decoder) []zk.ACL {
	n := d.Count(12)
	acl := make([]zk.ACL, 0, n)
	for range n {
		acl = append(acl, zk.ACL{Perms: d.Int(), Scheme: d.String(), ID: d.String()})
	}
	return acl
}

// pathFlag encodes the many requests that are a path and a watch flag.
func pathFlag(watch bool) func(*jute.Encoder, string) {
	return func(e *jute.Encoder, path string) {
		e.String(path)
		e.Bool(watch)
	}
}

// watchHook remembers a watch that the server now holds. With onMissing the
// watch is on the node's creation when there is no node (exists).
func watchHook(watch bool, kind WatchKind, onMissing bool) func(*link, string, *reply) {
	if !watch {
		return nil
	}
	return func(l *link, path string, r *reply) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case r.code == OK:
			l.watches.add(kind, path)
		case r.code == NoNode && onMissing:
			l.watches.add(ExistWatch, path)
		}
	}
}
