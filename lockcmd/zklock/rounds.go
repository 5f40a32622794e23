package zklock

import "time"

// A probe is a kind of request. The answers to probes prove that the leader has not ended the
// session.
type probe int

const (
	probeSync  probe = iota // a sync of any path
	probeCheck              // a transaction whose only operation checks that the lock's znode exists
)

// A stage says which probe of a proof comes next. There are two kinds of proofs. A round (see
// doc.go) is a sync, a wait, a second sync and a check. A short proof has no wait: it is a sync
// and a check or, on a new connection, a check alone.
type stage int

const (
	shortSync  stage = iota // sync of a short proof
	shortCheck              // check of a short proof
	firstSync               // first sync of a round
	secondSync              // second sync of a round
	finalCheck              // check that ends a round
)

// A proof decides when a held lock must send which probe, and computes how long the session
// is certain to last. It does not send probes itself, does not wait, and reads no clock. The
// caller sends one probe at a time:
//
//	do, at := p.next()  // wait until at, note the time, send, wait for the answer
//	p.done(sent, now)   // the answer was OK
//	p.failed(now)       // the answer was an error, on the same connection
//	p.attach(begun)     // a new connection: an answer on the old one no longer counts
//
// doc.go explains why this is safe, and rounds_model_test.go tests it in a model.
type proof struct {
	timeout   time.Duration // session timeout
	begun     time.Time     // send time of the connect request of the current connection
	proven    time.Time     // the leader counts the session timeout from this time or later; zero if nothing is proven
	toProve   time.Time     // time that the current round or short proof will prove
	firstSent time.Time     // send time of the current round's first sync
	stage     stage         // probe that comes next
	due       time.Time     // time at which the next probe may be sent; zero means now
}

func newProof(timeout time.Duration) proof { return proof{timeout: timeout} }

// pause returns w, the wait in a round between the answer to its first sync and its second
// sync. If a pause of the leader has delayed a ping, the leader sends that ping during the
// wait.
func (p *proof) pause() time.Duration { return p.timeout / 16 }

// gap returns D, the time between the end of a round and the beginning of the next. The
// leader pings its followers every half tick. D is at least half a tick, because no session
// timeout is shorter than two ticks.
func (p *proof) gap() time.Duration { return p.timeout / 4 }

// minAge returns D + w, the minimum time between an earlier answer and a proof that builds
// on that answer. A round builds on the answer to the first sync of the previous round.
func (p *proof) minAge() time.Duration { return p.gap() + p.pause() }

// attach records the current connection. begun is the time at which its connect request was
// sent, which created the session or attached it. Another call with the same time has no effect.
//
// The time that is already proven stays valid, because it states what the leader has heard. The
// current round is void, because it relied on the previous server. Attaching a session restarts
// its timeout at the leader, so it only remains to prove that the leader has a quorum. One check
// proves this.
func (p *proof) attach(begun time.Time) {
	if !p.begun.Equal(begun) {
		p.begun, p.toProve, p.stage, p.due = begun, begun, shortCheck, time.Time{}
	}
}

// endWithConnection ends the lease if the connection on which it was proven no longer exists.
// Call it only if the server ends sessions with their connections. begun is the start time of
// the current connection, or zero if there is no connection.
func (p *proof) endWithConnection(begun time.Time) {
	if !p.begun.IsZero() && !p.begun.Equal(begun) {
		p.proven = time.Time{}
	}
}

// startShort starts a short proof: a sync and a check without a wait. A lock on an old
// connection needs a short proof, because a round would take too long. After the proof, the
// leader is known to count the session timeout from sent or later.
//
// sent is the send time of an earlier request, whose answer must be at least minAge old
// when the sync is sent. The transaction that created the lock's znode can take the place
// of the sync.
//
// Unlike a round, a short proof can be wrong if the leader has just resumed after a long
// pause.
func (p *proof) startShort(sent time.Time) {
	p.toProve, p.stage, p.due = sent, shortSync, time.Time{}
}

// reanchor lets the first round after a short proof begin sooner, if an earlier request
// allows that. sent is the send time of the request, and answered the time of its answer,
// before the lock was requested. The round then begins minAge after answered. It proves
// that the leader counts the session timeout from sent or later. reanchor has no effect if
// the round would not begin sooner or would not extend the lease.
func (p *proof) reanchor(sent, answered time.Time) {
	due := answered.Add(p.minAge())
	if p.stage == firstSync && sent.After(p.proven) && due.Before(p.due) {
		p.toProve, p.due = sent, due
	}
}

// next returns the next probe and the time at which it is due; the zero time means now.
func (p *proof) next() (probe, time.Time) {
	if p.stage == shortCheck || p.stage == finalCheck {
		return probeCheck, p.due
	}
	return probeSync, p.due
}

// done records that a probe was answered with OK. sent is its send time, and now the time of
// the answer.
func (p *proof) done(sent, now time.Time) {
	switch p.stage {
	case shortSync:
		p.stage = shortCheck
	case shortCheck:
		p.prove(p.toProve)
		p.toProve, p.stage, p.due = sent, firstSync, now.Add(p.minAge()) // minAge instead of gap, because a short proof has no wait
	case firstSync:
		p.firstSent, p.stage, p.due = sent, secondSync, now.Add(p.pause())
	case secondSync:
		p.stage, p.due = finalCheck, now
	case finalCheck:
		p.prove(p.toProve)
		p.toProve, p.stage, p.due = p.firstSent, firstSync, now.Add(p.gap())
	}
}

// failed records that a probe was answered with an error, on a connection that still
// exists. A round starts again with its first sync; a short proof repeats the probe. The
// time to prove stays the same.
func (p *proof) failed(now time.Time) {
	if p.stage > shortCheck {
		p.stage = firstSync
	}
	p.due = now.Add(p.pause())
}

// prove records that the leader counts the session timeout from sent or later. On a standalone
// server, which is leader and quorum in one, any answered request proves its own send time.
func (p *proof) prove(sent time.Time) {
	if sent.After(p.proven) {
		p.proven = sent
	}
}

// duration returns the length of a lease that begins at the proven time. It is a hundredth
// shorter than the session timeout, because the client's clock may run slower than the leader's.
func (p *proof) duration() time.Duration { return p.timeout - p.timeout/100 }

// until returns the time at which the lease ends.
func (p *proof) until() time.Time { return p.proven.Add(p.duration()) }

// left returns how long the lease lasts from now on, by the wall clock or the monotonic
// clock, whichever leaves less time. It returns 0 if nothing is proven, and a negative
// duration if the lease has ended.
func (p *proof) left(now time.Time) time.Duration {
	if p.proven.IsZero() {
		return 0
	}
	return p.duration() - leaseAge(p.proven, now)
}

// longEnough reports whether the lease lasts until the first rounds can extend it, with
// enough time left to terminate a command. If not, the lock needs a short proof before it
// is reported as held.
func (p *proof) longEnough(now time.Time) bool {
	return p.left(now) > p.minAge()+2*p.pause()+p.timeout/6
}
