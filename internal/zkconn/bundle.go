package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zksh/zksh/internal/jute"
)

// part is an operation on its way through a transaction. Whoever asked for it gets an
// answer of its own, as if it had been sent alone.
type part struct {
	alone op[*answer] // the request that it is by itself
	done  chan outcome
}

// outcome is what a part is answered with.
type outcome struct {
	a      *answer
	events int // how many had come in before
	err    error
}

// partOf makes an operation that has changes a part.
func partOf[T any](o op[T]) *part {
	return &part{
		alone: reread(o, func(a *answer) *answer { return a }),
		done:  make(chan outcome, 1),
	}
}

// answer gives the part what it waits for. An error is about its own path.
func (p *part) answer(o outcome) {
	switch e := o.err.(type) {
	case *Error:
		own := *e
		own.Path = p.alone.path
		o.err = &own
	case *UnsentError:
		o.err = &UnsentError{p.alone.path, e.Write, e.Cause}
	case *AbandonedError:
		o.err = &AbandonedError{p.alone.path, e.Cause}
	case *LostError:
		o.err = &LostError{p.alone.path, e.Write, e.Size, e.Cause}
	}
	p.done <- o
}

// bundle carries out all parts or none, as one multi. It gives each its own answer, and
// sees to their effects. The error is an *UndoneError if one of them was refused.
func bundle(parts []*part) op[[]*answer] {
	var all []change
	for _, p := range parts {
		all = append(all, p.alone.changes...)
	}
	o := multi(all, func(c change) change { return c })
	return op[[]*answer]{
		code: o.code, path: o.path, write: true, err: o.err, changes: all, encode: o.encode,
		decode: func(a *answer) []*answer { return apart(a, parts) },
		effect: func(l *link, a *answer) {
			if a.code != codeOK {
				return
			}
			answers := apart(a, parts)
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
func apart(a *answer, parts []*part) []*answer {
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
	return fmt.Sprintf("not done, because operation %d of the transaction was refused: %s", e.Part+1, e.Err)
}

// Unwrap gives the refusal.
func (e *UndoneError) Unwrap() error { return e.Err }

// Why a request cannot join a transaction.
var (
	errNoPart = errors.New("this cannot be part of a transaction")
	errOver   = errors.New("the transaction is over")
)

// Transaction is requests of one session that are to be carried out together. One that
// is made with its context joins it instead of being sent, and is answered when the
// transaction ends, whatever becomes of the request's own context: whoever begins a
// transaction must end it, by Commit, InOrder or Abort.
type Transaction struct {
	s    *Session
	l    *link
	gen  int // expiries of the link before
	root chroot

	mu    sync.Mutex
	parts []*part
	over  bool
}

// Begin begins a transaction in the present session.
func (s *Session) Begin() *Transaction {
	l := s.current()
	return &Transaction{s: s, l: l, gen: look(l, func() int { return l.gen }), root: l.root}
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
func join[T any](ctx context.Context, t *Transaction, s sender, o op[T]) (none T, err error) {
	if c, ok := s.(Client); !ok || c.absolute || o.changes == nil {
		return none, errNoPart
	}
	p := partOf(o)
	if err := t.add(p); err != nil {
		return none, err
	}
	trip, _ := ctx.Value(tripKey{}).(*Trip)
	trip.begun()
	end := <-p.done
	if end.err != nil {
		trip.ended(reply{events: end.events})
		return none, end.err
	}
	trip.ended(reply{events: end.events, body: end.a.Rest()})
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
	t.parts, t.over = nil, true
	return parts
}

// connection makes it a sender of its session.
func (t *Transaction) connection(ctx context.Context, path string) (*frameConn, chroot, error) {
	k, err := t.l.awaitGen(ctx, t.gen, path, false)
	return k, t.root, err
}

func (t *Transaction) fencedBy() Fence { return t.s.fence }

// send sends parts as one request, alone if it may be none of several, and returns what
// they are to be answered with.
func (t *Transaction) send(ctx context.Context, parts []*part, alone bool) (outcomes []outcome, err error) {
	trip := NewTrip()
	trip.Alone = true // whoever waits for a transaction sends nothing behind it
	ctx = trip.Context(ctx)
	var answers []*answer
	if alone && len(parts) == 1 {
		var a *answer
		a, err = do(ctx, t, parts[0].alone)
		answers = append(answers, a)
	} else {
		answers, err = do(ctx, t, bundle(parts))
	}
	outcomes = make([]outcome, len(parts))
	for i := range outcomes {
		outcomes[i] = outcome{err: err, events: trip.events}
		if err == nil {
			outcomes[i].a = answers[i]
		}
	}
	if undone, ok := errors.AsType[*UndoneError](err); ok {
		outcomes[undone.Part].err = undone.Err
	}
	return outcomes, err
}

// Commit carries out all that has joined, or nothing of it. The error is an
// *UndoneError if one was refused, which then gets its refusal for its own answer, and
// all others the UndoneError.
func (t *Transaction) Commit(ctx context.Context) error {
	parts := t.end()
	if len(parts) == 0 {
		return nil
	}
	outcomes, err := t.send(ctx, parts, false)
	for i, p := range parts {
		p.answer(outcomes[i])
	}
	return err
}

// InOrder carries out what has joined as if each had been sent alone, once the one
// before had succeeded, up to the first that fails. All that stand behind that one get
// an *UnsentError.
func (t *Transaction) InOrder(ctx context.Context) {
	parts := t.end()
	together, again := len(parts), false
	for done := 0; done < len(parts); {
		outcomes, err := t.send(ctx, parts[done:done+together], true)
		if together > 1 && errors.As(err, new(*Error)) { // nothing was done: the good ones again, then one by one
			undone, ok := errors.AsType[*UndoneError](err)
			if together = 1; ok && !again {
				together = max(1, undone.Part)
			}
			again = true
			continue
		}
		if errors.As(err, new(*FencedError)) { // of all alike, and the first is the first that fails
			together = 1
		}
		for i, o := range outcomes[:together] {
			parts[done+i].answer(o)
		}
		done += together
		if err != nil {
			abort(parts[done:], &UnsentError{Write: true, Cause: err})
			return
		}
		together = 1
	}
}

// Abort answers all that has joined with cause. Nothing is sent.
func (t *Transaction) Abort(cause error) { abort(t.end(), cause) }

func abort(parts []*part, cause error) {
	for _, p := range parts {
		p.answer(outcome{err: cause})
	}
}
