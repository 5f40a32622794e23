package zkconn

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/jute"
)

// op is one operation of ZooKeeper, written once: how its request is encoded,
// how its answer is read, and what the answer means for the books the link
// keeps of watches, ephemeral znodes and credentials. It belongs to no
// connection yet. Three senders take any op: do with a Client (one request in
// the present session), do with a Pinned (in one session or in none), and add
// with a Pipe (many in flight on one connection).
type op[T any] struct {
	code  int32
	path  string // for errors, as the user wrote it; may be empty
	write bool   // it may change something, so that a lost answer matters
	err   error  // why it cannot be sent at all, such as a malformed path
	// changes are what a multi holds to do the same; nil if none can.
	changes []change
	encode  func(e *jute.Encoder, root chroot)
	rest    func(e *jute.Encoder) // without encode: what stands behind the path; may be nil
	decode  func(a *answer) T
	// effect runs in the receiving goroutine, before any later frame is looked at
	// and with the link's lock held. It sees refusals too. It may be nil.
	effect func(l *link, a *answer)
}

// reread is the same request, of whose answer something else is taken.
func reread[T, U any](o op[T], decode func(*answer) U) op[U] {
	return op[U]{o.code, o.path, o.write, o.err, o.changes, o.encode, o.rest, decode, o.effect}
}

// answer is a reply while it is read: the record behind its header, and what the
// paths in it begin with.
type answer struct {
	*jute.Decoder
	code  Code
	zxid  int64
	root  chroot
	parts []piece // of several
	err   error   // of an answer that is itself a refusal, such as a multi's

	fenced bool // err is that of the Fence

	more     int       // how many are about to be read, at most, together with this one
	stats    []zk.Stat // for them
	acl      []zk.ACL  // the latest that was read
	aclBytes []byte    // which it was read from
}

// read goes on with another record.
func (a *answer) read(b []byte) { a.Next(b) }

// maxLists is how many bytes the elements of lists in an answer may take, besides their
// own: those of two million names.
const maxLists = 32 << 20

// Stat is that of the answer. Those of answers that are read one after the other are made
// together.
func (a *answer) Stat() *zk.Stat {
	if len(a.stats) == 0 {
		a.stats = make([]zk.Stat, max(1, min(a.more, maxStats)))
	}
	st := &a.stats[0]
	a.stats = a.stats[1:]
	a.StatTo(st)
	return st
}

// maxStats is how many Stats are made together.
const maxStats = 64

func (a *answer) nothing() struct{} { return struct{}{} }

// sender is what a single request goes through.
type sender interface {
	// connection waits for the connection to send on. The path is for its error.
	connection(ctx context.Context, path string) (*frameConn, chroot, error)
	// fencedBy is what its writes depend on; nil without one.
	fencedBy() Fence
}

// once sends one request and waits for its answer. It gives up when ctx ends.
func once[T any](ctx context.Context, s sender, o op[T]) (none T, err error) {
	if o.err != nil {
		return none, o.err
	}
	if t, ok := ctx.Value(transactionKey{}).(*Transaction); ok {
		return join(ctx, t, s, o)
	}
	trip := TripOf(ctx)
	k, root, err := s.connection(ctx, o.path)
	err = admitted(ctx, k, &o, err)
	if err != nil {
		trip.cameTo(notSent.of(o.size()), false)
		return none, err
	}
	var g guard
	if jute.Writes(o.code) {
		if g, err = fencing(ctx, s, k.l); err != nil {
			trip.cameTo(notSent.of(o.size()), false)
			return none, err
		}
	}
	p := dispatch(ctx, k, root, o, g)
	if trip != nil && !trip.Alone { // its order among others is for whoever follows it to keep
		p.renew = nil
	}
	return p.Wait(ctx)
}

// begin binds an operation to a connection and sends it.
func begin[T any](ctx context.Context, k *frameConn, root chroot, o op[T]) *Pending[T] {
	p := bind(ctx, k.l, root, o)
	if o.err == nil {
		p.renew = func() *call { return bind(ctx, k.l, root, o).call }
		k.send(p.call)
	}
	return p
}

// bind makes an operation a request below a chroot, which is not sent any more
// once ctx has ended.
func bind[T any](ctx context.Context, l *link, root chroot, o op[T]) *Pending[T] {
	c := &call{ctx: ctx, op: o.code, path: o.path, write: o.write, done: make(chan reply, 1), left: 1}
	if c.trip = TripOf(ctx); c.trip != nil {
		c.trip.footprint = o.footprint()
	}
	if o.err != nil {
		c.done <- reply{err: o.err, fate: notSent}
	} else {
		e := jute.Encoder{B: make([]byte, 0, usualFrame+len(o.path))}
		o.frame(&e, root)
		c.frames = e.B
		c.trialOp = o.trialOp()
	}
	if o.effect != nil {
		c.effect = func(_ int, r reply) { o.affect(l, r.answer(root)) }
	}
	if n := o.destroys(); o.err == nil && n > 0 {
		recorder, _ := ctx.Value(recorderKey{}).(*Recorder)
		c.record = recorder.open(n)
	}
	return &Pending[T]{call: c, root: root, decode: o.decode, newest: o.newest(), changes: o.size()}
}

// usualFrame has room for most requests but for their path.
const usualFrame = 96

// frame appends an operation's request, but for the xid.
func (o *op[T]) frame(e *jute.Encoder, root chroot) {
	start := len(e.B)
	e.Int(0, 0, o.code)
	if o.encode != nil {
		o.encode(e, root)
	} else {
		e.String(root.server(o.path))
		if o.rest != nil {
			o.rest(e)
		}
	}
	binary.BigEndian.PutUint32(e.B[start:], uint32(len(e.B)-start-4))
}

func (o *op[T]) affect(l *link, a *answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.effect(l, a)
}

// Pending is an answer that is still to come.
type Pending[T any] struct {
	call   *call
	root   chroot
	decode func(*answer) T
	renew  func() *call // makes the request once more; nil if it is not to be sent again
	slowed bool

	newest   kind // the first change that old servers do not know; without one, the request itself
	changes  int  // number of changes in the request; 1 for a read
	fate     fate
	answered bool
}

// Outcome returns what became of the request's changes. It may be called once Wait has
// returned; before that, they are Unknown.
func (p *Pending[T]) Outcome() Outcome { return p.fate.of(p.changes) }

// Answered reports whether Wait has returned the answer to this very request: a value, the
// server's refusal, or that the request is too large.
func (p *Pending[T]) Answered() bool { return p.answered }

// Ready tells that the answer is there, or that there will be none. Where it is that the
// server has too much to do, Wait waits for another one.
func (p *Pending[T]) Ready() bool { return len(p.call.done) > 0 }

// Wait returns the answer. When ctx ends first, it tells whether the request had
// been sent. What the server has no time for is sent again.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	v, err := p.wait(ctx)
	if errors.Is(err, Throttled) {
		return p.again(ctx, v, err)
	}
	return v, err
}

func (p *Pending[T]) wait(ctx context.Context) (v T, err error) {
	r, err := p.call.wait(ctx)
	switch {
	case err != nil:
		p.fate, p.answered = r.fate, r.refusal
	case r.code != codeOK:
		p.fate, p.answered = r.code.fate(), true
		err = p.root.refusal(r.code, p.newest.code, p.newest.path)
	default:
		a := r.answer(p.root)
		v, err = read(a, p.decode)
		p.fate, p.answered = fateOf(a), !a.fenced
	}
	p.call.record.settle(p.fate)
	p.call.trip.cameTo(p.Outcome(), r.cut)
	return v, err
}

// read decodes an answer, which may itself be a refusal, or malformed.
func read[T any](a *answer, decode func(*answer) T) (none T, err error) {
	v := decode(a)
	if err := cmp.Or(a.err, a.Err()); err != nil {
		return none, err
	}
	return v, nil
}

// call is one request on its way, or several that go together: made by bind or
// severally, queued by frameConn.send, and answered through done exactly once, whatever
// happens.
type call struct {
	ctx    context.Context // once it has ended the call is not sent any more
	op     int32
	path   string
	write  bool
	frames []byte           // nil once sent
	effect func(int, reply) // as op.effect, of the request at that place; may be nil
	done   chan reply       // capacity 1
	then   func(reply)      // what follows its end; may be nil
	trip   *Trip            // may be nil
	record *record          // may be nil

	again   bool  // it was sent before, and answered with Throttled
	trialOp int32 // the opcode newer than 3.4 that it needs; 0 if none

	// The connection's lock guards these.
	k     *frameConn
	size  int       // of the request in bytes, once sent; of several the longest
	sent  time.Time // when it was sent
	first int32     // its xid above xidBase; those of several follow each other
	left  int       // requests without an answer
	parts []piece   // the answers to several; nil of one
}

// longest is the size in bytes of the longest of its requests.
func (c *call) longest() (longest int) {
	for at := 0; at < len(c.frames); {
		size := int(binary.BigEndian.Uint32(c.frames[at:]))
		longest = max(longest, size)
		at += 4 + size
	}
	return longest
}

// awaits tells whether an answer is one to this call, and the place of its request.
func (c *call) awaits(xid int32) (at int, is bool) {
	at = int((xid - xidBase - c.first) & (xidBase - 1))
	return at, at == 0 && c.parts == nil || at < len(c.parts) && !c.parts[at].here
}

// put takes the answer to the request at a place. With the last one the call is answered.
func (c *call) put(at int, r reply) {
	c.left--
	if c.parts != nil {
		c.parts[at] = piece{true, r.code, r.body}
	}
}

// reply is what came back for a call: the server's code and the record behind
// the header, or err when there was none.
type reply struct {
	zxid    int64
	code    Code
	body    []byte
	err     error
	fate    fate // of a reply with an err
	cut     bool // err is the end of the connection, or of the wait, before an answer came
	refusal bool // err is about this very request, like a server's refusal

	parts  []piece // of several requests
	events int     // how many had come in before
}

// piece is what came back for one of several requests.
type piece struct {
	here bool // it has come
	code Code
	body []byte
}

func (r reply) answer(root chroot) *answer {
	d := jute.NewDecoder(r.body)
	d.Limit(maxLists)
	return &answer{Decoder: d, code: r.code, zxid: r.zxid, root: root, parts: r.parts}
}

// wait returns the reply, or the error of a call that has none.
func (c *call) wait(ctx context.Context) (reply, error) {
	select {
	case r := <-c.done:
		return c.took(r)
	case <-ctx.Done():
	}
	if c.k != nil {
		c.k.withdraw(c, context.Cause(ctx))
	}
	select {
	case r := <-c.done: // it has just come, or tells that it was not sent
		return c.took(r)
	default:
	}
	if c.write {
		return reply{fate: unknown, cut: true}, &AbandonedError{Path: c.path, Cause: context.Cause(ctx)}
	}
	return reply{fate: unknown, cut: true}, context.Cause(ctx)
}

// took is the reply for whoever waits for it. A connection that broke over a refused
// credential has that for its reason.
func (c *call) took(r reply) (reply, error) {
	c.trip.ended(r)
	if errors.Is(r.err, ConnectionLoss) {
		if refused := look(c.k.l, func() error { return c.k.l.refused }); refused != nil {
			r.err = refused
		}
	}
	return r, r.err
}

// unsent answers a call that surely stays without effect.
func (c *call) unsent(cause error) {
	c.end(reply{err: &UnsentError{c.path, c.write, cause}, fate: notSent, cut: true})
}

func (c *call) end(r reply) {
	if r.err != nil {
		c.record.settle(r.fate)
	}
	r.events = c.k.l.out.count()
	c.done <- r
	if c.then != nil {
		c.then(r)
	}
}
