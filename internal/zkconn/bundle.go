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

// part is an operation that has joined a transaction. Whoever asked for it gets an
// answer of its own, as if it had been sent alone.
type part struct {
	alone  Op[*answer] // the request that it is by itself
	answer chan partAnswer
}

// partAnswer is what a part is answered with.
type partAnswer struct {
	a       *answer
	err     error
	outcome Outcome
	cut     bool // as in Trip
	events  int  // number of events received before the answer
}

// partOf makes a part of an operation that has changes.
func partOf[T any](o Op[T]) *part {
	return &part{
		alone:  reread(o, func(a *answer) *answer { return a }),
		answer: make(chan partAnswer, 1),
	}
}

// end answers the part. The error is about the part's own path.
func (p *part) end(with partAnswer) {
	switch e := with.err.(type) {
	case *Error:
		own := *e
		own.Path = p.alone.path
		with.err = &own
	case *UnsentError:
		with.err = &UnsentError{p.alone.path, e.Write, e.Cause}
	case *AbandonedError:
		with.err = &AbandonedError{p.alone.path, e.Cause}
	case *LostError:
		with.err = &LostError{p.alone.path, e.Write, e.Size, e.Cause}
	}
	p.answer <- with
}

// bundle carries out all parts or none, as one multi. It gives each its own answer, and
// sees to their effects. The error is an *UndoneError if one of them was refused.
func bundle(parts []*part) Op[[]*answer] {
	var all []Change
	for _, p := range parts {
		all = append(all, p.alone.changes...)
	}
	o := Multi(all)
	return Op[[]*answer]{
		code: o.code, path: o.path, write: true, err: o.err, changes: all, encode: o.encode,
		decode: func(a *answer) []*answer { return splitAnswer(a, parts) },
		effect: func(l *link, a *answer) {
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
		},
	}
}

// apart takes the answer to a bundle to pieces: one for each part, as it would have
// come to it alone.
func splitAnswer(a *answer, parts []*part) []*answer {
	answers := make([]*answer, len(parts))
	for i, p := range parts {
		var own []byte
		for _, c := range p.alone.changes {
			piece := a.Rest()
			code := a.part()
			if p.alone.code != jute.OpMulti { // alone, its answer has no header
				piece = a.Rest()
			}
			switch _, err := c.result(a, code); {
			case errors.Is(err, runtimeInconsistency): // it is not the one; without one this stays
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

// UndoneError says that an operation of a transaction was not carried out, because
// another one was refused.
type UndoneError struct {
	Part int // which one, from 0, in the order in which they joined
	Err  error
}

func (e *UndoneError) Error() string {
	return fmt.Sprintf("not applied, because operation %d of the transaction failed: %s", e.Part+1, e.Err)
}

// Unwrap gives the refusal.
func (e *UndoneError) Unwrap() error { return e.Err }

// Why a request cannot join a transaction.
var (
	errNoPart = errors.New("a request of this type cannot be part of a transaction")
	errOver   = errors.New("the transaction has already ended")
)

// Transaction is requests of one session that are carried out together. A request
// that is made with its Context joins it instead of being sent, and is answered when
// the transaction ends, whatever becomes of the request's own context. Whoever begins
// a transaction must end it, by Commit, CommitEach or Abort.
type Transaction struct {
	s    *Session
	l    *link
	in   wire.Epoch // of the session in which it began
	root chroot

	mu    sync.Mutex
	parts []*part
	over  bool
}

// Begin begins a transaction in the present session.
func (s *Session) Begin() *Transaction {
	l := s.current()
	l.relying.Add(1) // until end
	return &Transaction{s: s, l: l, in: l.wire.Status().Epoch, root: l.root}
}

type transactionKey struct{}

// Context is for the requests that are to join.
func (t *Transaction) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionKey{}, t)
}

// Len is how many requests have joined.
func (t *Transaction) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.parts)
}

// join puts an operation into the transaction and waits for its end.
func join[T any](ctx context.Context, t *Transaction, s Sender, o Op[T]) (none T, err error) {
	if c, ok := s.(interface{ mayJoin() bool }); !ok || !c.mayJoin() || o.changes == nil {
		return none, errNoPart
	}
	p := partOf(o)
	if err := t.add(p); err != nil {
		return none, err
	}
	trip := TripOf(ctx)
	trip.begun()
	end := <-p.answer
	trip.cameTo(end.outcome, end.cut)
	if end.err != nil {
		trip.ended(reply{events: end.events})
		return none, end.err
	}
	trip.ended(reply{events: end.events, Reply: wire.Reply{Body: end.a.Rest()}})
	return read(end.a, o.decode)
}

func (t *Transaction) add(p *part) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errOver
	}
	t.parts = append(t.parts, p)
	return nil
}

// end takes what has joined. Nothing joins any more.
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

// connection makes it a sender of its session.
func (t *Transaction) connection(ctx context.Context, path string) (target, error) {
	k, err := t.l.awaitIn(ctx, t.in, path, false)
	return target{k, t.l, t.root}, err
}

func (t *Transaction) fencedBy() Fence { return t.s.fence }

// send sends parts as one request: as a multi, or a single part alone if alone is true.
// It returns the outcome of all of them and what each is to be answered with.
func (t *Transaction) send(ctx context.Context, parts []*part, alone bool) (outcome Outcome, ends []partAnswer, err error) {
	trip := NewTrip()
	trip.Alone = true // whoever waits for a transaction sends nothing behind it
	ctx = trip.Context(ctx)
	var answers []*answer
	if alone && len(parts) == 1 {
		var a *answer
		a, err = Do(ctx, t, parts[0].alone)
		answers = append(answers, a)
	} else {
		answers, err = Do(ctx, t, bundle(parts))
	}
	ends = make([]partAnswer, len(parts))
	for i, p := range parts {
		ends[i] = partAnswer{err: err, events: trip.events, cut: trip.Cut, outcome: trip.Outcome.share(p.alone.size())}
		if err == nil {
			ends[i].a = answers[i]
		}
	}
	if undone, ok := errors.AsType[*UndoneError](err); ok {
		ends[undone.Part].err = undone.Err
	}
	return trip.Outcome, ends, err
}

// Commit carries out all that has joined, or nothing of it. The error is an
// *UndoneError if one request was rejected; that one is answered with its refusal, and
// all others with the UndoneError.
func (t *Transaction) Commit(ctx context.Context) (Outcome, error) {
	parts := t.end()
	if len(parts) == 0 {
		return Outcome{}, nil
	}
	outcome, ends, err := t.send(ctx, parts, false)
	for i, p := range parts {
		p.end(ends[i])
	}
	return outcome, err
}

// CommitEach carries out what has joined as if each request had been sent alone, once
// the one before had succeeded, up to the first that fails. All behind that one get an
// *UnsentError.
//
// It sends as many as it can in one multi. When that is known to have had no effect, it
// sends the requests before the rejected one together again, and then one by one. A
// multi whose outcome is unknown is never sent again.
func (t *Transaction) CommitEach(ctx context.Context) {
	parts := t.end()
	together, again := len(parts), false
	for sent := 0; sent < len(parts); {
		outcome, ends, err := t.send(ctx, parts[sent:sent+together], true)
		if together > 1 && outcome.Rejected > 0 && !errors.As(err, new(*FencedError)) {
			undone, ok := errors.AsType[*UndoneError](err)
			if together = 1; ok && !again {
				together = max(1, undone.Part)
			}
			again = true
			continue
		}
		if together > 1 && !ends[0].cut && err != nil { // all fail alike, and the first is the first that fails
			together = 1
		}
		for i, end := range ends[:together] {
			parts[sent+i].end(end)
		}
		sent += together
		if err != nil {
			abort(parts[sent:], partAnswer{err: &UnsentError{Write: true, Cause: err}, cut: ends[0].cut})
			return
		}
		together = 1
	}
}

// Abort answers all that has joined with cause. Nothing is sent.
func (t *Transaction) Abort(cause error) { abort(t.end(), partAnswer{err: cause}) }

func abort(parts []*part, with partAnswer) {
	for _, p := range parts {
		with.outcome = notSent.of(p.alone.size())
		p.end(with)
	}
}
