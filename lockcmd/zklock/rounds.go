package zklock

import "time"

// errand is what a lease needs to have done next.
type errand int

const (
	askSync  errand = iota // a sync of any path
	askCheck               // a transaction of one operation, which checks that the own znode is there
)

// stage is how far the proof under way has come: what the next errand is for.
type stage int

const (
	hasty   stage = iota // the sync of a round that does not wait
	short                // the check that ends it, or proves a connect request
	opening              // the first sync of a round
	closing              // the second
	proving              // the check that ends the round
)

// proof says what a lock that is held needs to have asked of the ensemble,
// and how long the session is sure to last. It neither sends nor waits, and reads
// no clock. Its owner does one errand at a time:
//
//	do, at := p.next()  // wait until at, note the time, send, wait for the answer
//	p.done(sent, now)   // the answer was OK
//	p.failed(now)       // it was not, and the connection is the same as before
//	p.attach(begun)     // the connection is another one: the answer, if any, does not count
//
// Why this is safe is told in doc.go, and explored in rounds_model_test.go.
type proof struct {
	timeout time.Duration // the session's
	begun   time.Time     // when the connection in use had been asked for
	proven  time.Time     // the leader counts the session's time from here or later
	anchor  time.Time     // a sending on this connection that the proof under way is about
	first   time.Time     // the sending of this round's first sync
	stage   stage
	due     time.Time // of the next errand
}

func newProof(timeout time.Duration) proof { return proof{timeout: timeout} }

// pause is how long a round waits between its two syncs: the ping of a leader
// that has just come to itself again must get between them.
func (p *proof) pause() time.Duration { return p.timeout / 16 }

// distance is how long a round begins after the one before it has ended: half a
// tick at least, for no session is shorter than two ticks, so that the leader has
// a ping to send.
func (p *proof) distance() time.Duration { return p.timeout / 4 }

// old is how old an answer must be to be leant on by a proof that begins now: as
// old as the answer to the first sync of the round before is in a round.
func (p *proof) old() time.Duration { return p.distance() + p.pause() }

// attach tells of the connection in use: when its connect request, which made the
// session or brought it along, had been sent. It may be told more than once.
//
// What was proven stays so, for it says what the leader has heard. The round
// under way is void: it was about the table of a server that is no longer ours.
// But to attach a session touches it at the leader itself, so that all there is
// to prove is that a quorum stood behind that leader: one check.
func (p *proof) attach(begun time.Time) {
	if !p.begun.Equal(begun) {
		p.begun, p.anchor, p.stage, p.due = begun, begun, short, time.Time{}
	}
}

// leave tells of the connection in use where a session ends with its connection: what was
// proven on another one counts no more. Without a connection begun is zero.
func (p *proof) leave(begun time.Time) {
	if !p.begun.IsZero() && !p.begun.Equal(begun) {
		p.proven = time.Time{}
	}
}

// hasten makes a lock that was taken on an old connection known to be held
// sooner than a round would: one sync, one check and no wait prove the sending of
// a request whose answer is old by the time the sync is sent. The transaction that
// made the own znode will do for the sync. Unlike a round this can be fooled by a
// leader that has just come to itself after a long pause.
func (p *proof) hasten(heard time.Time) {
	p.anchor, p.stage, p.due = heard, hasty, time.Time{}
}

// lean makes the first round after that one about a request whose answer had
// come before the lock was asked for, if it can begin sooner then: at the time at
// which a round may begin that follows one whose first sync was answered then.
func (p *proof) lean(heard, came time.Time) {
	due := came.Add(p.old())
	if p.stage == opening && heard.After(p.proven) && due.Before(p.due) {
		p.anchor, p.due = heard, due
	}
}

// next tells the next errand and when it is due; the zero time is now.
func (p *proof) next() (errand, time.Time) {
	if p.stage == short || p.stage == proving {
		return askCheck, p.due
	}
	return askSync, p.due
}

// done tells that the errand, sent at one moment, was answered with OK at another.
func (p *proof) done(sent, now time.Time) {
	switch p.stage {
	case hasty:
		p.stage = short
	case short:
		p.prove(p.anchor)
		p.anchor, p.stage, p.due = sent, opening, now.Add(p.old()) // nothing waited since the sending
	case opening:
		p.first, p.stage, p.due = sent, closing, now.Add(p.pause())
	case closing:
		p.stage, p.due = proving, now
	case proving:
		p.prove(p.anchor)
		p.anchor, p.stage, p.due = p.first, opening, now.Add(p.distance())
	}
}

// failed tells that the errand was answered otherwise, on a connection that goes
// on. The next round proves what this one was to prove.
func (p *proof) failed(now time.Time) {
	if p.stage > short {
		p.stage = opening
	}
	p.due = now.Add(p.pause())
}

// prove takes note that the leader counts from a moment or later. A server that
// is known to stand alone is its own leader and quorum: there any answered
// request proves its own sending.
func (p *proof) prove(from time.Time) {
	if from.After(p.proven) {
		p.proven = from
	}
}

// lasting is how long the session lasts from the proven moment on by our clock,
// which may go slower than the leader's by a hundredth.
func (p *proof) lasting() time.Duration { return p.timeout - p.timeout/100 }

// until is the end of the lease.
func (p *proof) until() time.Time { return p.proven.Add(p.lasting()) }

// left is how long the lease lasts, by both clocks; 0 if nothing is proven.
func (p *proof) left(now time.Time) time.Duration {
	if p.proven.IsZero() {
		return 0
	}
	return p.lasting() - leaseAge(p.proven, now)
}

// enough reports whether the lease lasts until rounds can extend it, and leaves then
// the time that a command has to end in. With less, a lock is not to be reported
// as held before it was hastened.
func (p *proof) enough(now time.Time) bool {
	return p.left(now) > p.old()+2*p.pause()+p.timeout/6
}
