package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Some servers of others close the connection over a request that they do not know, or never
// answer it. So a connection sends the first request of each kind that is newer than ZooKeeper
// 3.4 as a trial, alone.
//
// One such end may be an accident. The second one over the same kind of request is not:
// the ensemble does not know it. If a server says that it is a ZooKeeper which does, as
// one of an ensemble that is being restarted, it takes four. A write is not repeated to find
// that out, as it may have taken effect; a harmless request of the same kind is sent instead.

// hangUp is why a trial is lost: the server closed the connection over it, and over nothing
// else, or answered pings alone until the connection was given up.
type hangUp struct {
	l     *link
	op    int32
	host  string
	cause error
}

func (h *hangUp) Error() string {
	if h.silent() {
		return h.host + " did not answer " + newer[h.op].name
	}
	return h.host + " closed the connection on " + newer[h.op].name
}

func (h *hangUp) silent() bool { return silent(h.cause) }

func silent(cause error) bool {
	fault, _ := errors.AsType[wire.Fault](cause)
	return fault.Silent
}

// Unwrap returns the cause.
func (h *hangUp) Unwrap() error { return h.cause }

// HungUp takes note of a server that hung up over a request.
func (l *link) HungUp(op int32, server string, cause error) (accident bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hangUps == nil {
		l.hangUps = map[int32]int{}
	}
	l.hangUps[op]++
	l.hungUpBy = server + " closes the connection on"
	if silent(cause) {
		l.hungUpBy = server + " does not answer"
	}
	// Whoever granted the persistent watches knows the request, so a few losses are accidents.
	if op == jute.OpSetWatches2 && l.hangUps[op] >= hangUpsOfKnowing {
		l.forgetPersistent()
	}
	return l.hangUps[op] <= hangUpsOfKnowing
}

// Passed forgets what hung up before: it was an accident.
func (l *link) Passed(op int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hangUps, op)
}

// How many hang-ups in a row prove that the ensemble does not know a request.
const (
	hangUpsOfTied    = 1 // each costs a session
	hangUpsOfOthers  = 2
	hangUpsOfKnowing = 4 // of a ZooKeeper that says it knows the request
)

// lacks is the refusal of a request that the ensemble is known not to know, or nil. Called
// with mu held.
func (l *link) lacks(op int32, path string) error {
	enough := hangUpsOfOthers
	switch {
	case l.wire.Tied():
		enough = hangUpsOfTied
	case l.claimed[op], op == jute.OpSetWatches2:
		enough = hangUpsOfKnowing
	}
	if l.hangUps[op] < enough {
		return nil
	}
	return &Error{Code: Unimplemented, Path: path, hint: fmt.Sprintf("%s %s, which it does not support", l.hungUpBy, newer[op].name)}
}

// admit is the error of a request that is not to be sent: one that the ensemble is known
// not to know; while locks are held, one that the server is not known to know; and while the
// session has ephemeral znodes, one of which a server that is not ZooKeeper is not known to
// know. Such a server may end the session over it, and with the session what depends on it.
func (to target) admit(ctx context.Context, op int32, path string) error {
	if op == 0 {
		return nil
	}
	l, guarded, owner := to.l, to.l.wire.Guarded(), false
	err := underLock(l, func() error {
		owner = len(l.ephemerals) > 0
		return l.lacks(op, path)
	})
	if err != nil || !guarded && !owner || to.Passed(op) {
		return err
	}
	v, err := to.Version(ctx)
	if err != nil {
		return &UnsentError{path, false, err}
	}
	while := "a lock is held"
	if !guarded {
		while = "the session has ephemeral znodes"
	}
	if v.AtLeast(newer[op].minor()) || !guarded && (v.Product == "" || v.ZooKeeper()) {
		return nil
	}
	what := cmp.Or(v.Product, "a server that does not answer srvr")
	if v.ZooKeeper() {
		what = fmt.Sprintf("ZooKeeper %d.%d", v.Major, v.Minor)
	}
	return &Error{Code: Unimplemented, Path: path, hint: fmt.Sprintf(
		"zksh does not send this request while %s, because %s (%s) may not support %s and may then end the session", while, to.Server, what, newer[op].name)}
}

// claim notes whether the server says that it is a ZooKeeper which knows a request. The
// error is that of ctx.
func (to target) claim(ctx context.Context, op int32) error {
	v, err := to.Version(ctx)
	if err == nil && v.AtLeast(newer[op].minor()) {
		to.l.mu.Lock()
		defer to.l.mu.Unlock()
		if to.l.claimed == nil {
			to.l.claimed = map[int32]bool{}
		}
		to.l.claimed[op] = true
	}
	return err
}

// afterHangUp finds out whether the ensemble knows a request over which the server has
// hung up, and returns what became of the request.
func afterHangUp[T any](ctx context.Context, s Sender, o Op[T], lost error, h *hangUp) (none T, f fate, err error) {
	ctx = untripped(ctx)
	if o.write {
		f, err := h.find(ctx, o.path, lost)
		return none, f, err
	}
	for {
		to, err := s.connection(ctx, o.path)
		if err != nil || to.l != h.l || to.claim(ctx, h.op) != nil {
			f, err := h.verdict(o.path, lost)
			return none, f, err
		}
		if err := to.admit(ctx, h.op, o.path); err != nil {
			return none, rejected, err
		}
		p := begin(ctx, to, o)
		v, err := p.Wait(ctx)
		if _, again := errors.AsType[*hangUp](err); !again {
			return v, p.fate, err
		}
		if f, err := h.verdict(o.path, err); f == rejected {
			return none, f, err
		}
		lost = err
	}
}

// find returns what became of a write over which the server has hung up: it is rejected
// if the ensemble does not know such writes, and otherwise it may have taken effect.
func (h *hangUp) find(ctx context.Context, path string, lost error) (fate, error) {
	harmless, ok := harmless(h.op)
	if !ok {
		return unknown, lost
	}
	for underLock(h.l, func() error { return h.l.lacks(h.op, path) }) == nil {
		k, err := h.l.await(ctx, path, false)
		to := target{k, h.l, ""}
		if err != nil || to.claim(ctx, h.op) != nil || to.admit(ctx, h.op, path) != nil {
			break
		}
		_, err = begin(ctx, to, harmless).Wait(ctx)
		if _, again := errors.AsType[*hangUp](err); !again {
			return unknown, lost
		}
	}
	// A single hang-up may be an accident behind a write that took effect. Where it is enough
	// to send no more of them, it says nothing of this one.
	if underLock(h.l, func() int { return h.l.hangUps[h.op] }) < 2 {
		return unknown, lost
	}
	return h.verdict(path, lost)
}

// verdict returns that the request was rejected, if the ensemble is known not to know its
// kind by now, and otherwise that it is lost.
func (h *hangUp) verdict(path string, lost error) (fate, error) {
	if refusal := underLock(h.l, func() error { return h.l.lacks(h.op, path) }); refusal != nil {
		return rejected, refusal
	}
	return unknown, lost
}

// harmless is a request of a kind that changes nothing, whatever the server makes of it:
// the root is there already. Some kinds have none.
func harmless(op int32) (Op[struct{}], bool) {
	o := request(op, "/", (*answer).nothing, func(e *jute.Encoder) {
		e.Buffer(nil)
		writeACL(e, OpenACL())
		flags := int32(flagContainer)
		if op == jute.OpCreateTTL {
			flags = flagTTL
		}
		e.Int(flags)
		if op == jute.OpCreateTTL {
			e.Long(1000)
		}
	})
	return o, op == jute.OpCreateContainer || op == jute.OpCreateTTL
}
