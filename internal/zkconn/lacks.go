package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn/wire"
)

// Some servers of other products close the connection when they receive a request that they do
// not support, or never answer it. So the first request of each kind that is newer than ZooKeeper
// 3.4 is a trial: the connection sends it alone, with no other request in flight.
//
// The first time that a server closes the connection because of a trial may be an accident. After
// the second time, zksh assumes that the ensemble does not support this kind of request. If a
// server claims to be a ZooKeeper that supports it, zksh assumes that after the fourth time,
// because the ensemble may be restarting. zksh never repeats a write to find that out, because
// the write may have taken effect. It sends a harmless request of the same kind instead.

// A hangUp wraps the error of a failed trial, which is a request that the server may not support.
// Either the server closed the connection because of the trial, or zksh closed it because the
// server answered only pings.
type hangUp struct {
	l     *link
	op    int32  // opcode of the trial
	host  string // address of the server
	cause error
}

func (h *hangUp) Error() string {
	if h.silent() {
		return h.host + " did not answer " + jute.OpName(h.op)
	}
	return h.host + " closed the connection on " + jute.OpName(h.op)
}

func (h *hangUp) silent() bool { return silent(h.cause) }

func silent(cause error) bool {
	fault, _ := errors.AsType[wire.Fault](cause)
	return fault.Silent
}

// Unwrap returns the error that ended the connection.
func (h *hangUp) Unwrap() error { return h.cause }

// HungUp implements wire.Handler. It counts how often servers have closed the connection because of
// a trial with the opcode op, or have not answered the trial. accident reports whether the server
// may nevertheless support such requests.
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
	// The server supports setWatches2, because it has granted the persistent watches. A few lost
	// connections are therefore accidents. Only after a series of them does the link drop the
	// watches.
	if op == jute.OpSetWatches2 && l.hangUps[op] >= hangUpsOfKnowing {
		l.forgetPersistent()
	}
	return l.hangUps[op] <= hangUpsOfKnowing
}

// Passed implements wire.Handler. A server has answered a trial with the opcode op, so earlier
// failures were accidents, and Passed resets their number.
func (l *link) Passed(op int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hangUps, op)
}

// Numbers of failed trials in a row after which zksh assumes that the ensemble does not support a
// kind of request.
const (
	hangUpsOfTied    = 1 // if each lost connection ends the session; see wire.Link.Tie
	hangUpsOfOthers  = 2 // in all other cases
	hangUpsOfKnowing = 4 // if a server claims to be a ZooKeeper that supports the request
)

// lacks returns an error if the ensemble is known not to support requests with the opcode op, and
// nil otherwise. The caller must hold mu.
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
	return &Error{Code: Unimplemented, Path: path, hint: fmt.Sprintf("%s %s, which it does not support", l.hungUpBy, jute.OpName(op))}
}

// admit returns an error if a request with this opcode must not be sent, and nil otherwise. A request
// must not be sent in these cases:
//   - The ensemble is known not to support it.
//   - A lock is held, and the server is not known to support it.
//   - The session has ephemeral znodes, and the server is neither ZooKeeper nor known to support it.
//
// In the last two cases the server might end the session because of the request.
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
		"zksh does not send this request while %s, because %s (%s) may not support %s and may then end the session", while, to.Server, what, jute.OpName(op))}
}

// claim asks the server for its version, and records whether a ZooKeeper of that version supports
// requests with this opcode. It returns an error only if ctx has ended.
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

// afterHangUp is called when the server has closed the connection because of the operation o, or
// did not answer o. It finds out whether the ensemble supports o, and returns the fate of o, which
// says whether it took effect. If o is a read, it sends o again and also returns the result.
func afterHangUp[T any](ctx context.Context, s Sender, o Op[T], lostErr error, h *hangUp) (none T, f fate, err error) {
	ctx = untripped(ctx)
	if o.write {
		f, err := h.find(ctx, o.path, lostErr)
		return none, f, err
	}
	for {
		to, err := s.connection(ctx, o.path)
		if err != nil || to.l != h.l || to.claim(ctx, h.op) != nil {
			f, err := h.verdict(o.path, lostErr)
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
		lostErr = err
	}
}

// find determines the fate of a write that made the server close the connection. If the ensemble
// does not support such writes, the fate is rejected. Otherwise, it is unknown, and the error is
// lostErr.
func (h *hangUp) find(ctx context.Context, path string, lostErr error) (fate, error) {
	harmless, ok := harmless(h.op)
	if !ok {
		return unknown, lostErr
	}
	for underLock(h.l, func() error { return h.l.lacks(h.op, path) }) == nil {
		k, err := h.l.await(ctx, path, false)
		to := target{k, h.l, ""}
		if err != nil || to.claim(ctx, h.op) != nil || to.admit(ctx, h.op, path) != nil {
			break
		}
		_, err = begin(ctx, to, harmless).Wait(ctx)
		if _, again := errors.AsType[*hangUp](err); !again {
			return unknown, lostErr
		}
	}
	// The first lost connection may be an accident that happened after the write took effect.
	// Therefore the outcome of this write is unknown, even if zksh sends no more such writes from
	// now on.
	if underLock(h.l, func() int { return h.l.hangUps[h.op] }) < 2 {
		return unknown, lostErr
	}
	return h.verdict(path, lostErr)
}

// verdict returns the fate rejected if the ensemble is now known not to support the request.
// Otherwise, it returns the fate unknown and the error lostErr.
func (h *hangUp) verdict(path string, lostErr error) (fate, error) {
	if refusal := underLock(h.l, func() error { return h.l.lacks(h.op, path) }); refusal != nil {
		return rejected, refusal
	}
	return unknown, lostErr
}

// harmless returns a request with this opcode that changes nothing: it tries to create the root
// znode, which always exists. It returns false if requests with the opcode do not create a znode.
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
