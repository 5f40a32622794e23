package zkconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// Pinned sends requests in one session of the ensemble and in no other: once
// that session is over, each fails with SessionExpired, or ErrNotConnected after
// a close. Requests wait for a connection until their context ends, and are sent
// once. Paths are without the chroot. It is what package zklock calls a Session.
type Pinned struct {
	l     *link
	gen   int
	id    int64
	ended <-chan struct{}
	c     Client
}

// Stay is the ensemble a Session is connected to now. What Connect puts in its
// place is another one, even of the same servers.
type Stay struct {
	s *Session
	l *link
}

// Stay binds to the present ensemble.
func (s *Session) Stay() Stay { return Stay{s, s.current()} }

// Closed tells whether it was left by Close or Connect.
func (b Stay) Closed() bool {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	return b.l.state == StateClosed
}

// Pin is Stay's Pin for the present ensemble.
func (s *Session) Pin(ctx context.Context) (*Pinned, error) { return s.Stay().Pin(ctx) }

// Pin waits for a session until ctx ends and binds to it.
func (b Stay) Pin(ctx context.Context) (*Pinned, error) {
	for {
		if _, err := b.l.await(ctx, "", true); err != nil && !errors.Is(err, SessionExpired) {
			return nil, err
		}
		if p := b.pinned(); p != nil {
			return p, nil
		}
	}
}

// pinned binds to the session, or returns nil if the connection has gone again:
// without one the session may have no id yet.
func (b Stay) pinned() *Pinned {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	if b.l.cur == nil {
		return nil
	}
	return &Pinned{l: b.l, gen: b.l.gen, id: b.l.id, ended: b.l.over, c: Client{s: b.s}}
}

// ID is the session's id.
func (p *Pinned) ID() int64 { return p.id }

// Timeout is the negotiated session timeout.
func (p *Pinned) Timeout() time.Duration {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.l.timeout
}

// LastContact is when the latest request that was answered had been sent.
func (p *Pinned) LastContact() time.Time {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.l.lastSent
}

// Connected tells whether there is a connection to a server.
func (p *Pinned) Connected() bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.l.cur != nil && p.l.gen == p.gen
}

// Changed is closed when the connection changes next.
func (p *Pinned) Changed() <-chan struct{} {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.l.changed
}

// Ended is closed once the session is known to be over.
func (p *Pinned) Ended() <-chan struct{} { return p.ended }

// Await waits for a connection until ctx or the session ends.
func (p *Pinned) Await(ctx context.Context) error {
	_, err := p.connection(ctx, "")
	return err
}

func (p *Pinned) connection(ctx context.Context, path string) (*frameConn, error) {
	return p.l.awaitGen(ctx, p.gen, path, true)
}

// flight sends requests in one write, so that the server carries them out in
// this order.
func (p *Pinned) flight(ctx context.Context, requests ...request) ([]*call, error) {
	for _, r := range requests {
		if err := ValidatePath(r.path, r.sequential); err != nil {
			return nil, err
		}
	}
	k, err := p.connection(ctx, requests[0].path)
	if err != nil {
		return nil, err
	}
	calls := make([]*call, len(requests))
	for i, r := range requests {
		calls[i] = p.c.call(p.l, r)
		calls[i].ctx = ctx
	}
	go k.send(calls...) // a write can block; it ends by its own deadline, and each done tells how
	return calls, nil
}

// answer waits for what a call is answered with, if it is no refusal.
func (c *call) answer(ctx context.Context) (reply, error) {
	r, err := c.wait(ctx)
	if err == nil && r.code != OK {
		err = &Error{r.code, c.path}
	}
	return r, err
}

func (p *Pinned) do(ctx context.Context, r request) (*jute.Decoder, error) {
	calls, err := p.flight(ctx, r)
	if err != nil {
		return nil, err
	}
	rep, err := calls[0].answer(ctx)
	return jute.NewDecoder(rep.body), err
}

// CreateAndList makes the znodes, all or none, and lists dir right behind, in
// one round trip. It returns their paths and czxid, and the names of dir's
// children. With paths and an error, the znodes were made and the list failed.
func (p *Pinned) CreateAndList(ctx context.Context, reqs []*zk.CreateRequest, dir string) (paths []string, czxid int64, children []string, err error) {
	list := request{op: jute.OpGetChildren, path: dir, encode: pathFlag(false)}
	calls, err := p.flight(ctx, p.creation(reqs), list)
	if err != nil {
		return nil, 0, nil, err
	}
	names, listErr := calls[1].answer(ctx) // the last answer first: one wait instead of two
	made, err := calls[0].answer(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	if paths, czxid, err = p.created(&made, reqs); err != nil {
		return nil, 0, nil, err
	}
	if listErr != nil {
		return paths, czxid, nil, listErr
	}
	d := jute.NewDecoder(names.body)
	return paths, czxid, d.Strings(), d.Err()
}

// creation is create2 for one znode, a multi for more.
func (p *Pinned) creation(reqs []*zk.CreateRequest) request {
	sequential := reqs[0].Flags&zk.FlagSequence != 0
	hook := func(l *link, _ string, r *reply) {
		if r.code != OK {
			return
		}
		paths, _, err := p.created(r, reqs)
		l.mu.Lock()
		defer l.mu.Unlock()
		for i := range paths {
			if err == nil && reqs[i].Flags&zk.FlagEphemeral != 0 {
				l.ephemerals[p.c.serverPath(l, paths[i])] = struct{}{}
			}
		}
	}
	if len(reqs) == 1 {
		return request{op: jute.OpCreate2, path: reqs[0].Path, write: true, sequential: sequential, hook: hook,
			encode: func(e *jute.Encoder, server string) { encodeCreate(e, server, reqs[0]) }}
	}
	return request{op: jute.OpMulti, path: reqs[0].Path, write: true, sequential: sequential, hook: hook,
		encode: func(e *jute.Encoder, _ string) {
			for _, r := range reqs {
				multiHeader(e, jute.OpCreate, false)
				encodeCreate(e, p.c.serverPath(p.l, r.Path), r)
			}
			multiHeader(e, -1, true)
		}}
}

func encodeCreate(e *jute.Encoder, server string, r *zk.CreateRequest) {
	e.String(server)
	e.Buffer(r.Data)
	writeACL(e, r.Acl)
	e.Int(r.Flags)
}

// created reads what a creation returned. A multi's results are bare paths; its
// transaction is that of the reply.
func (p *Pinned) created(r *reply, reqs []*zk.CreateRequest) (paths []string, czxid int64, err error) {
	d := jute.NewDecoder(r.body)
	if len(reqs) == 1 {
		return []string{p.c.clientPath(p.l, d.String())}, readStat(d).Czxid, d.Err()
	}
	asked := make([]string, len(reqs))
	for i, req := range reqs {
		asked[i] = req.Path
	}
	if err := multiError(jute.NewDecoder(r.body), asked); err != nil {
		return nil, 0, err
	}
	for range reqs {
		_, _, _ = d.Int(), d.Bool(), d.Int() // a result's header
		paths = append(paths, p.c.clientPath(p.l, d.String()))
	}
	return paths, r.zxid, d.Err()
}

// Multi carries out all operations or none: *zk.CreateRequest (without container
// or TTL), *zk.DeleteRequest, *zk.CheckVersionRequest.
func (p *Pinned) Multi(ctx context.Context, ops ...any) error {
	paths := make([]string, len(ops))
	encode := func(e *jute.Encoder, _ string) {
		for i, op := range ops {
			p.encodeOp(e, op, paths[i])
		}
		multiHeader(e, -1, true)
	}
	for i, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			paths[i] = op.Path
		case *zk.DeleteRequest:
			paths[i] = op.Path
		case *zk.CheckVersionRequest:
			paths[i] = op.Path
		default:
			return fmt.Errorf("a multi cannot hold a %T", op)
		}
		if err := ValidatePath(paths[i], false); err != nil {
			return err
		}
	}
	hook := func(l *link, _ string, r *reply) {
		if r.code == OK && multiError(jute.NewDecoder(r.body), paths) == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			p.noteEphemerals(l, ops)
		}
	}
	d, err := p.do(ctx, request{op: jute.OpMulti, path: paths[0], write: true, encode: encode, hook: hook})
	if err != nil {
		return err
	}
	return multiError(d, paths)
}

func (p *Pinned) encodeOp(e *jute.Encoder, op any, path string) {
	server := p.c.serverPath(p.l, path)
	switch op := op.(type) {
	case *zk.CreateRequest:
		multiHeader(e, jute.OpCreate, false)
		encodeCreate(e, server, op)
	case *zk.DeleteRequest:
		multiHeader(e, jute.OpDelete, false)
		encodeDelete(op.Version)(e, server)
	case *zk.CheckVersionRequest:
		multiHeader(e, jute.OpCheck, false)
		e.String(server)
		e.Int(op.Version)
	}
}

// noteEphemerals keeps the list of the session's ephemeral znodes after a multi.
// Called with the link's lock held.
func (p *Pinned) noteEphemerals(l *link, ops []any) {
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if op.Flags&zk.FlagEphemeral != 0 {
				l.ephemerals[p.c.serverPath(l, op.Path)] = struct{}{}
			}
		case *zk.DeleteRequest:
			delete(l.ephemerals, p.c.serverPath(l, op.Path))
		}
	}
}

// Delete removes a znode, whatever its version.
func (p *Pinned) Delete(ctx context.Context, path string) error {
	_, err := p.do(ctx, request{op: jute.OpDelete, path: path, write: true, encode: encodeDelete(-1), hook: forgetEphemeral})
	return err
}

// CreateContainer makes an empty container znode that everybody may use.
func (p *Pinned) CreateContainer(ctx context.Context, path string) error {
	r := &zk.CreateRequest{Path: path, Data: []byte{}, Acl: OpenACL(), Flags: flagContainer}
	_, err := p.do(ctx, request{op: jute.OpCreateContainer, path: path, write: true,
		encode: func(e *jute.Encoder, server string) { encodeCreate(e, server, r) }})
	return err
}

// Children returns the names of a znode's children.
func (p *Pinned) Children(ctx context.Context, path string) ([]string, error) {
	d, err := p.do(ctx, request{op: jute.OpGetChildren, path: path, encode: pathFlag(false)})
	if err != nil {
		return nil, err
	}
	return d.Strings(), d.Err()
}

// WatchChildren is Children with a wake channel: a value is sent into it, if
// there is room, at the next change of the names.
func (p *Pinned) WatchChildren(ctx context.Context, path string, wake chan<- struct{}) ([]string, error) {
	d, err := p.do(ctx, request{op: jute.OpGetChildren, path: path, encode: pathFlag(true), hook: wakeHook(wake, ChildWatch)})
	if err != nil {
		return nil, err
	}
	return d.Strings(), d.Err()
}

// Sync waits until the server has caught up with the leader.
func (p *Pinned) Sync(ctx context.Context, path string) error {
	_, err := p.do(ctx, request{op: jute.OpSync, path: path, encode: func(e *jute.Encoder, s string) { e.String(s) }})
	return err
}

// Get returns a znode's data and Stat. With a wake channel, a value is sent into
// it, if there is room, at the next change of the znode.
func (p *Pinned) Get(ctx context.Context, path string, wake chan<- struct{}) ([]byte, *zk.Stat, error) {
	d, err := p.do(ctx, request{op: jute.OpGetData, path: path, encode: pathFlag(wake != nil), hook: wakeHook(wake, DataWatch)})
	if err != nil {
		return nil, nil, err
	}
	data := d.Buffer()
	stat := readStat(d)
	return data, stat, d.Err()
}

// Exists returns a znode's Stat, which needs no permission. With a wake channel,
// it is as in Get; where there is no znode, its creation is the next change.
func (p *Pinned) Exists(ctx context.Context, path string, wake chan<- struct{}) (*zk.Stat, error) {
	d, err := p.do(ctx, request{op: jute.OpExists, path: path, encode: pathFlag(wake != nil), hook: wakeHook(wake, DataWatch, ExistWatch)})
	if err != nil {
		return nil, err
	}
	return readStat(d), d.Err()
}

// Unwatch forgets what requests on path were given this wake channel for. The
// server keeps its watches until they fire, which then shows nowhere.
func (p *Pinned) Unwatch(path string, wake chan<- struct{}) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, kind := range []WatchKind{DataWatch, ExistWatch, ChildWatch} {
		key := wakeKey{kind, p.c.serverPath(p.l, path)}
		if wakes, ok := p.l.wakes[key]; ok {
			p.l.wakes[key] = slices.DeleteFunc(wakes, func(w chan<- struct{}) bool { return w == wake })
		}
	}
}

// wakeHook remembers who is to be woken when the watch fires, which is of the
// first kind, or of the second where there is no znode.
func wakeHook(wake chan<- struct{}, kinds ...WatchKind) func(*link, string, *reply) {
	if wake == nil {
		return nil
	}
	return func(l *link, path string, r *reply) {
		key := wakeKey{kinds[0], path}
		switch {
		case r.code == NoNode && len(kinds) > 1:
			key.kind = kinds[1]
		case r.code != OK:
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if !slices.Contains(l.wakes[key], wake) {
			l.wakes[key] = append(l.wakes[key], wake)
		}
	}
}
