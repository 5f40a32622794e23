package zkconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/peer"
)

// Some servers of others close the connection over a request that they do not know,
// without an answer, and some end the session with it; others never answer it. So the first request of each kind
// that is newer than ZooKeeper 3.4 is a trial: it is sent when all that was sent before has
// been answered, and nothing is sent behind it before it is. If the connection ends then,
// no other request is lost, and it is clear over what the server hung up.
//
// One such end may be an accident. The second one over the same kind of request is not:
// the ensemble does not know it. If a server says that it is a ZooKeeper which does, as
// one of an ensemble that is being restarted, it takes four. A write is not repeated to find
// that out, as it may have taken effect; a harmless request of the same kind is sent instead.

// trialOp is the opcode of those newer than 3.4 that an operation needs, itself or in a
// multi; 0 if it needs none.
func (o *op[T]) trialOp() int32 {
	if _, is := newer[o.code]; is {
		return o.code
	}
	for _, c := range o.changes {
		if _, is := newer[c.code]; is {
			return c.code
		}
	}
	return 0
}

// sendable is how many calls of the queue can be sent now: those before a trial, or the
// trial alone. Called with mu held.
func (k *frameConn) sendable() int {
	if k.trial != nil {
		return 0
	}
	for i, c := range k.queue {
		switch {
		case c.trialOp == 0 || k.passed[c.trialOp]:
		case i == 0 && len(k.pending) == 0:
			return 1
		default:
			return i
		}
	}
	return len(k.queue)
}

// begins takes note of a call that is being sent, in case it is a trial. Called with mu held.
func (k *frameConn) begins(c *call) {
	if c.trialOp != 0 && !k.passed[c.trialOp] {
		k.trial = c
	}
}

// tried takes note of a call that was answered, and sends what has waited for that.
func (k *frameConn) tried(c *call, code Code) {
	k.mu.Lock()
	passed := c == k.trial && code != Unimplemented
	if c == k.trial {
		k.trial = nil
	}
	if passed {
		k.passed[c.trialOp] = true
	}
	k.flush()
	k.mu.Unlock()
	if passed { // what hung up before was an accident
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		delete(k.l.hangUps, c.trialOp)
	}
}

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

func (h *hangUp) silent() bool { return errors.As(h.cause, new(silence)) }

// Unwrap returns the cause.
func (h *hangUp) Unwrap() error { return h.cause }

// lostTrial is why the one call without an answer is lost, if that is a trial over which the
// server hung up; else nil. Called with mu held.
func (k *frameConn) lostTrial(cause error) *hangUp {
	hungUp := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) || peer.Cut(cause) || errors.As(cause, new(silence))
	if k.trial == nil || k.barred || !hungUp || len(k.pending) != 1 || k.pending[0] != k.trial {
		return nil
	}
	return &hangUp{k.l, k.trial.trialOp, k.addr, cause}
}

// hungUp takes note of a server that hung up over a request.
func (l *link) hungUp(h *hangUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op := h.op
	if l.hangUps == nil {
		l.hangUps = map[int32]int{}
	}
	l.hangUps[op]++
	l.hungUpBy = h.host + " closes the connection on"
	if h.silent() {
		l.hungUpBy = h.host + " does not answer"
	}
	// Whoever granted the persistent watches knows the request, so a few losses are accidents.
	if op == jute.OpSetWatches2 && l.hangUps[op] >= hangUpsOfKnowing {
		l.forgetPersistent()
	}
	if l.hangUps[op] <= hangUpsOfKnowing {
		l.hosts.reset() // the next connection has nothing to do with it
	}
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
	case l.tied.Load():
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
func (l *link) admit(ctx context.Context, k *frameConn, op int32, path string) error {
	if op == 0 {
		return nil
	}
	guarded, owner := l.guards.Load() > 0, false
	err := look(l, func() error {
		owner = len(l.ephemerals) > 0
		return l.lacks(op, path)
	})
	if err != nil || !guarded && !owner {
		return err
	}
	k.mu.Lock()
	passed := k.passed[op]
	k.mu.Unlock()
	if passed {
		return nil
	}
	v, err := k.serverVersion(ctx)
	if err != nil {
		return &UnsentError{path, false, err}
	}
	while := "a lock is held"
	if !guarded {
		while = "the session has ephemeral znodes"
	}
	if v.atLeast(newer[op].minor()) || !guarded && (v.product == "" || v.zooKeeper()) {
		return nil
	}
	what := cmp.Or(v.product, "a server that does not answer srvr")
	if v.zooKeeper() {
		what = fmt.Sprintf("ZooKeeper %d.%d", v.major, v.minor)
	}
	return &Error{Code: Unimplemented, Path: path, hint: fmt.Sprintf(
		"zksh does not send this request while %s, because %s (%s) may not support %s and may then end the session", while, k.addr, what, newer[op].name)}
}

// claim notes whether the server says that it is a ZooKeeper which knows a request. The
// error is that of ctx.
func (k *frameConn) claim(ctx context.Context, op int32) error {
	v, err := k.serverVersion(ctx)
	if err == nil && v.atLeast(newer[op].minor()) {
		k.l.mu.Lock()
		defer k.l.mu.Unlock()
		if k.l.claimed == nil {
			k.l.claimed = map[int32]bool{}
		}
		k.l.claimed[op] = true
	}
	return err
}

// do is once, but if the server hangs up over a request newer than 3.4 it finds out whether
// the server knows it.
func do[T any](ctx context.Context, s sender, o op[T]) (none T, err error) {
	v, err := once(ctx, s, o)
	h, ok := errors.AsType[*hangUp](err)
	if _, joined := ctx.Value(transactionKey{}).(*Transaction); !ok || joined {
		return v, err
	}
	v, f, err := afterHangUp(ctx, s, o, err, h)
	trip := TripOf(ctx)
	trip.cameTo(f.of(o.size()), f == unknown)
	return v, err
}

// admitted is the error of a request that has no connection, or is not to be sent on it.
func admitted[T any](ctx context.Context, k *frameConn, o *op[T], err error) error {
	if err != nil {
		return err
	}
	return k.l.admit(ctx, k, o.trialOp(), o.path)
}

// afterHangUp finds out whether the ensemble knows a request over which the server has
// hung up, and returns what became of the request.
func afterHangUp[T any](ctx context.Context, s sender, o op[T], lost error, h *hangUp) (none T, f fate, err error) {
	ctx = untripped(ctx)
	if o.write {
		f, err := h.find(ctx, o.path, lost)
		return none, f, err
	}
	for {
		k, root, err := s.connection(ctx, o.path)
		if err != nil || k.l != h.l || k.claim(ctx, h.op) != nil {
			f, err := h.verdict(o.path, lost)
			return none, f, err
		}
		if err := k.l.admit(ctx, k, h.op, o.path); err != nil {
			return none, rejected, err
		}
		p := begin(ctx, k, root, o)
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
	for look(h.l, func() error { return h.l.lacks(h.op, path) }) == nil {
		k, err := h.l.await(ctx, path, false)
		if err != nil || k.claim(ctx, h.op) != nil || h.l.admit(ctx, k, h.op, path) != nil {
			break
		}
		_, err = begin(ctx, k, "", harmless).Wait(ctx)
		if _, again := errors.AsType[*hangUp](err); !again {
			return unknown, lost
		}
	}
	// A single hang-up may be an accident behind a write that took effect. Where it is enough
	// to send no more of them, it says nothing of this one.
	if look(h.l, func() int { return h.l.hangUps[h.op] }) < 2 {
		return unknown, lost
	}
	return h.verdict(path, lost)
}

// verdict returns that the request was rejected, if the ensemble is known not to know its
// kind by now, and otherwise that it is lost.
func (h *hangUp) verdict(path string, lost error) (fate, error) {
	if refusal := look(h.l, func() error { return h.l.lacks(h.op, path) }); refusal != nil {
		return rejected, refusal
	}
	return unknown, lost
}

// harmless is a request of a kind that changes nothing, whatever the server makes of it:
// the root is there already. Some kinds have none.
func harmless(op int32) (op[struct{}], bool) {
	o := asking(op, "/", (*answer).nothing, func(e *jute.Encoder) {
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

var versionPattern = regexp.MustCompile(`(?im)^(.*?) version: (?:\D*?)(\d+)\.(\d+)`)

// version is what a server says of its own. product is empty if it says nothing.
type version struct {
	product      string // what stands before " version: "
	major, minor int
}

// zooKeeper reports whether the server says that it is ZooKeeper.
func (v version) zooKeeper() bool { return strings.EqualFold(v.product, "zookeeper") }

// atLeast reports whether the server says that it is ZooKeeper 3.minor or later.
func (v version) atLeast(minor int) bool {
	return v.zooKeeper() && (v.major > 3 || v.major == 3 && v.minor >= minor)
}

// parseVersion reads the answer to srvr.
func parseVersion(answer string) (v version) {
	m := versionPattern.FindStringSubmatch(answer)
	if m == nil {
		return v
	}
	var errs [2]error
	v.product = m[1]
	v.major, errs[0] = strconv.Atoi(m[2])
	v.minor, errs[1] = strconv.Atoi(m[3])
	if errors.Join(errs[:]...) != nil {
		return version{}
	}
	return v
}

// serverVersion is what the server of a connection says of itself, which is asked for once.
// The error is that of ctx.
func (k *frameConn) serverVersion(ctx context.Context) (version, error) {
	k.mu.Lock()
	known := k.version
	k.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	answer, err := k.l.fourLetter(ctx, k.addr, "srvr")
	if ctx.Err() != nil {
		return version{}, context.Cause(ctx)
	}
	v := version{}
	if err == nil {
		v = parseVersion(answer)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.version = &v
	return v, nil
}
