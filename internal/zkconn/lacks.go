package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Some servers of other products close the connection over a request that they do not support,
// or never answer it. So a connection sends the first request of each kind that is newer than
// ZooKeeper 3.4 alone, as a trial.
//
// The first hang-up over a kind of request may be an accident. After the second one the ensemble
// counts as not supporting it. It takes four if a server claims to be a ZooKeeper that supports
// it, because the ensemble may be restarting. A write is not repeated to find that out, because
// it may have taken effect: zksh sends a harmless request of the same kind instead.

// A hangUp is the cause of a lost trial: the server closed the connection over that request, or
// answered only pings until the connection was given up.
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

// HungUp counts a hang-up of a server over a request.
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
	// A server granted the persistent watches, so it supports the request, and a few losses are accidents.
	if op == jute.OpSetWatches2 && l.hangUps[op] >= hangUpsOfKnowing {
		l.forgetPersistent()
	}
	return l.hangUps[op] <= hangUpsOfKnowing
}

// Passed resets the count of hang-ups: they were accidents.
func (l *link) Passed(op int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hangUps, op)
}

// The number of hang-ups in a row that prove that the ensemble does not support a request.
const (
	hangUpsOfTied    = 1 // if each ends a session
	hangUpsOfOthers  = 2
	hangUpsOfKnowing = 4 // if a ZooKeeper claims to support the request
)

// lacks returns the error of a request that the ensemble is known not to support, or nil. Called
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

// admit returns an error if a request with this opcode must not be sent, and nil otherwise. It
// must not be sent if the ensemble is known not to support it; while a lock is held, if the
// server is not known to support it; and while the session has ephemeral znodes, if the server is
// not ZooKeeper and not known to support it. The server might end the session over it.
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

// claim records whether the server says that it is a ZooKeeper with support for a request. The
// error is ctx's.
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

// afterHangUp finds out whether the ensemble supports a request over which the server hung up.
// It sends a read again, and returns the fate of the request.
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

// find returns the fate of a write over which the server hung up: rejected if the ensemble does
// not support such writes, and otherwise unknown.
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
	// A single hang-up may be an accident after the write took effect. Even where one is enough
	// to send no more such writes, the outcome of this one is unknown.
	if underLock(h.l, func() int { return h.l.hangUps[h.op] }) < 2 {
		return unknown, lost
	}
	return h.verdict(path, lost)
}

// verdict returns rejected if the ensemble is known not to support the request by now, and
// otherwise unknown with the error lost.
func (h *hangUp) verdict(path string, lost error) (fate, error) {
	if refusal := underLock(h.l, func() error { return h.l.lacks(h.op, path) }); refusal != nil {
		return rejected, refusal
	}
	return unknown, lost
}

// harmless returns a request with this opcode that changes nothing: it creates the root, which
// exists. It returns false if there is none for the opcode.
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
