package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// A part is an operation that belongs to a transaction. The caller that made the operation gets the
// same answer as if it had been sent alone.
type part struct {
	alone  operation // the operation as a single request
	answer chan partAnswer
}

// A partAnswer is the answer to one part of a transaction. The caller that made the part waits
// for it.
type partAnswer struct {
	a       *answer
	err     error
	outcome Outcome
	cut     bool // whether the connection was lost before an answer arrived; see Trip.Cut
	events  int  // number of events received before the answer
}

// partOf returns a part for the operation o. A multi must be able to contain the operation, which
// means that o.changes is not nil.
func partOf(o operation) *part {
	return &part{alone: o, answer: make(chan partAnswer, 1)}
}

// end passes the answer to the caller that made the part. If the answer is an error, end replaces
// the path in it with the path of the part.
func (p *part) end(result partAnswer) {
	switch e := result.err.(type) {
	case *Error:
		own := *e
		own.Path = p.alone.path
		result.err = &own
	case *UnsentError:
		result.err = &UnsentError{p.alone.path, e.Write, e.Cause}
	case *AbandonedError:
		result.err = &AbandonedError{p.alone.path, e.Cause}
	case *LostError:
		result.err = &LostError{p.alone.path, e.Write, e.Size, e.Cause}
	}
	p.answer <- result
}

// bundle returns an operation that carries out all parts or none, as one multi. Its result contains
// one answer for each part. If the server rejects one of the parts, the error is an *UndoneError.
// The operation updates the link's records as if each part had been sent alone.
func bundle(parts []*part) Op[[]*answer] {
	var all []Change
	for _, p := range parts {
		all = append(all, p.alone.changes...)
	}
	o := Op[[]*answer]{Multi(all).operation, func(a *answer) []*answer { return splitAnswer(a, parts) }}
	o.effect = func(l *link, a *answer) {
		if a.code != codeOK {
			return
		}
		answers := splitAnswer(a, parts)
		if cmp.Or(a.err, a.Err()) != nil {
			return
		}
		for i, p := range parts {
			if p.alone.effect != nil {
				p.alone.effect(l, answers[i])
			}
		}
	}
	return o
}

// splitAnswer splits the answer to a bundle into one answer for each part. Each of these has the
// same encoding as the server's answer to a part that is sent alone.
func splitAnswer(a *answer, parts []*part) []*answer {
	answers := make([]*answer, len(parts))
	for i, p := range parts {
		var own []byte
		for _, c := range p.alone.changes {
			piece := a.Rest()
			code := a.part()
			if p.alone.code != jute.OpMulti { // skip the header, which only answers to multis have
				piece = a.Rest()
			}
			switch _, err := c.result(a, code); {
			case errors.Is(err, runtimeInconsistency):
				// RuntimeInconsistency means that another part failed. Save this error in case the
				// loop does not find that part.
				a.err = cmp.Or(a.err, err)
			case err != nil:
				a.err = &UndoneError{i, err}
				return nil
			}
			own = append(own, piece[:len(piece)-len(a.Rest())]...)
		}
		answers[i] = &answer{Decoder: jute.NewDecoder(own), zxid: a.zxid, root: a.root}
	}
	return answers
}

// An UndoneError reports that an operation of a transaction was not carried out, because the
// server rejected another operation of the transaction.
type UndoneError struct {
	Part int   // index of the rejected operation, in the order in which operations joined
	Err  error // error with which the server rejected that operation
}

func (e *UndoneError) Error() string {
	return fmt.Sprintf("not applied, because operation %d of the transaction failed: %s", e.Part+1, e.Err)
}

// Unwrap returns the error with which the server rejected the operation.
func (e *UndoneError) Unwrap() error { return e.Err }

// Errors of requests that cannot join a transaction.
var (
	errNoPart = errors.New("a request of this type cannot be part of a transaction")
	errOver   = errors.New("the transaction has already ended")
)

// A Transaction collects requests of one session, in order to send them together. A request that
// is made with the transaction's Context joins the transaction instead of being sent. It is
// answered when the transaction ends, even if the request's own context ends earlier. Each
// transaction must be ended by Commit or Abort.
type Transaction struct {
	s    *Session
	l    *link
	in   wire.Epoch // the session in which the transaction began
	root chroot

	mu    sync.Mutex
	parts []*part
	size  int // size of the request that Commit would send, in bytes
	over  bool

	written Written // see Written
}

// emptyTransaction is the size of the request of a transaction without parts, in bytes: the header of
// the request, and the header that ends a multi.
const emptyTransaction = 8 + 9

// Begin starts a transaction in the current session.
func (s *Session) Begin() *Transaction {
	l := s.current()
	l.relying.Add(1) // Transaction.end subtracts 1 again
	return &Transaction{s: s, l: l, in: l.wire.Status().Epoch, root: l.root, size: emptyTransaction}
}

type transactionKey struct{}

// Context returns a context derived from ctx. Requests that are made with it join the
// transaction.
func (t *Transaction) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionKey{}, t)
}

// Len returns the number of requests that have joined the transaction.
func (t *Transaction) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.parts)
}

// Changes returns the changes that have joined the transaction.
func (t *Transaction) Changes() (all []Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.parts {
		all = append(all, p.alone.changes...)
	}
	return all
}

// join adds the operation o to the transaction, waits until the transaction ends, and returns the
// answer to o.
func (t *Transaction) join(ctx context.Context, s Sender, o operation) (*answer, error) {
	if c, ok := s.(interface{ mayJoin() bool }); !ok || !c.mayJoin() || o.changes == nil {
		return nil, errNoPart
	}
	p := partOf(o)
	if err := t.add(p); err != nil {
		return nil, err
	}
	entry := o.record(ctx)
	trip := TripOf(ctx)
	trip.begun()
	end := <-p.answer
	entry.settle(end.outcome.fate())
	trip.cameTo(end.outcome, end.cut)
	if end.err != nil {
		trip.ended(reply{events: end.events})
		return nil, end.err
	}
	trip.ended(reply{events: end.events, Reply: wire.Reply{Body: end.a.Rest()}})
	return end.a, nil
}

// add adds the part p to the transaction. It returns a *TooLargeError if the request of the transaction
// would then be too large.
func (t *Transaction) add(p *part) error {
	var own jute.Encoder
	for _, c := range p.alone.changes {
		c.encodePart(&own, t.root)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errOver
	}
	size := t.size + len(own.B)
	if limit := t.l.cfg.largest(); size > limit {
		return &TooLargeError{Path: p.alone.path, Size: size, Limit: limit, Whole: true}
	}
	t.parts, t.size = append(t.parts, p), size
	return nil
}

// end ends the transaction, so that no more requests can join it, and returns the parts that have
// joined.
func (t *Transaction) end() []*part {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := t.parts
	if !t.over {
		t.l.relying.Add(-1)
	}
	t.parts, t.over = nil, true
	return parts
}

// connection returns a connection of the session in which the transaction began.
func (t *Transaction) connection(ctx context.Context, path string) (target, error) {
	k, err := t.l.awaitIn(ctx, t.in, path, false)
	return target{k, t.l, t.root}, err
}

func (t *Transaction) fencedBy() Fence { return t.s.fence }

// send sends the parts as one multi. It returns the outcome of all changes together, and the answer
// to each part.
func (t *Transaction) send(ctx context.Context, parts []*part) (outcome Outcome, ends []partAnswer, err error) {
	trip := NewTrip()
	trip.Alone = true // callers send nothing more until the transaction is answered
	answers, err := Do(trip.Context(ctx), t, bundle(parts))
	ends = make([]partAnswer, len(parts))
	for i, p := range parts {
		ends[i] = partAnswer{err: err, events: trip.events, cut: trip.Cut, outcome: trip.Outcome.fate().of(p.alone.size())}
		if err == nil {
			ends[i].a = answers[i]
		}
	}
	if undone, ok := errors.AsType[*UndoneError](err); ok {
		ends[undone.Part].err = undone.Err
	}
	return trip.Outcome, ends, err
}

// Commit ends the transaction: the server carries out all requests that have joined, or none. If
// it rejects one of them, Commit returns an *UndoneError. The rejected request returns the
// server's refusal, and all others return the UndoneError.
func (t *Transaction) Commit(ctx context.Context) (Outcome, error) {
	parts := t.end()
	if len(parts) == 0 {
		return Outcome{}, nil
	}
	outcome, ends, err := t.send(ctx, parts)
	for i, p := range parts {
		if err == nil {
			t.addWritten(p, ends[i].a)
		}
		p.end(ends[i])
	}
	return outcome, err
}

// addWritten adds the results of one part, whose answer is a, to t.written.
func (t *Transaction) addWritten(p *part, a *answer) {
	own := &answer{Decoder: jute.NewDecoder(a.Rest()), zxid: a.zxid, root: a.root}
	made := results(own, p.alone.code, p.alone.changes)
	t.written.Zxid = a.zxid
	for _, path := range made {
		if path != "" {
			path = a.root.clients([]string{path})[0]
		}
		t.written.Paths = append(t.written.Paths, path)
	}
}

// Written returns the result of a successful Commit. Unlike the result of a Multi, it contains a path
// for each element of Changes, which is empty for those that create nothing.
func (t *Transaction) Written() Written { return t.written }

// Abort ends the transaction without sending it. Every request that has joined returns cause.
func (t *Transaction) Abort(cause error) { abort(t.end(), partAnswer{err: cause}) }

func abort(parts []*part, result partAnswer) {
	for _, p := range parts {
		result.outcome = notSent.of(p.alone.size())
		p.end(result)
	}
}
