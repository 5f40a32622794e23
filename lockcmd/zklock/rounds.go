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

// leaseClock says what a lock that is held needs to have asked of the ensemble,
// and how long the session is sure to last. It neither sends nor waits, and reads
// no clock. Its owner does one errand at a time:
//
//	do, at := c.next()  // wait until at, note the time, send, wait for the answer
//	c.done(sent, now)   // the answer was OK
//	c.failed(now)       // it was not, and the connection is the same as before
//	c.attach(begun)     // the connection is another one: the answer, if any, does not count
//
// Why this is safe is told in doc.go, and explored in rounds_model_test.go.
type leaseClock struct {
	timeout time.Duration // the session's
	begun   time.Time     // when the connection in use had been asked for
	proven  time.Time     // the leader counts the session's time from here or later
	anchor  time.Time     // a sending on this connection that the proof under way is about
	first   time.Time     // the sending of this round's first sync
	stage   stage
	due     time.Time // of the next errand
}

func newLeaseClock(timeout time.Duration) leaseClock { return leaseClock{timeout: timeout} }

// pause is how long a round waits between its two syncs: the ping of a leader
// that has just come to itself again must get between them.
func (c *leaseClock) pause() time.Duration { return c.timeout / 16 }

// distance is how long a round begins after the one before it has ended: half a
// tick at least, for no session is shorter than two ticks, so that the leader has
// a ping to send.
func (c *leaseClock) distance() time.Duration { return c.timeout / 4 }

// old is how old an answer must be to be leant on by a proof that begins now: as
// old as the answer to the first sync of the round before is in a round.
func (c *leaseClock) old() time.Duration { return c.distance() + c.pause() }

// attach tells of the connection in use: when its connect request, which made the
// session or brought it along, had been sent. It may be told more than once.
//
// What was proven stays so, for it says what the leader has heard. The round
// under way is void: it was about the table of a server that is no longer ours.
// But to attach a session touches it at the leader itself, so that all there is
// to prove is that a quorum stood behind that leader: one check.
func (c *leaseClock) attach(begun time.Time) {
	if !c.begun.Equal(begun) {
		c.begun, c.anchor, c.stage, c.due = begun, begun, short, time.Time{}
	}
}

// hasten makes a lock that was taken on an old connection known to be held
// sooner than a round would: one sync, one check and no wait prove the sending of
// a request whose answer is old by the time the sync is sent. The
// transaction that made the own znode will do for the sync. Unlike a round this
// can be fooled by a leader that has just come to itself after a long pause.
func (c *leaseClock) hasten(heard time.Time) {
	c.anchor, c.stage, c.due = heard, hasty, time.Time{}
}

// next tells the next errand and when it is due; the zero time is now.
func (c *leaseClock) next() (errand, time.Time) {
	if c.stage == short || c.stage == proving {
		return askCheck, c.due
	}
	return askSync, c.due
}

// done tells that the errand, sent at one moment, was answered with OK at another.
func (c *leaseClock) done(sent, now time.Time) {
	switch c.stage {
	case hasty:
		c.stage = short
	case short:
		c.prove(c.anchor)
		c.anchor, c.stage, c.due = sent, opening, now.Add(c.distance())
	case opening:
		c.first, c.stage, c.due = sent, closing, now.Add(c.pause())
	case closing:
		c.stage, c.due = proving, now
	case proving:
		c.prove(c.anchor)
		c.anchor, c.stage, c.due = c.first, opening, now.Add(c.distance())
	}
}

// failed tells that the errand was answered otherwise, on a connection that goes
// on. The next round proves what this one was to prove.
func (c *leaseClock) failed(now time.Time) {
	if c.stage > short {
		c.stage = opening
	}
	c.due = now.Add(c.pause())
}

// prove takes note that the leader counts from a moment or later. A server that
// is known to stand alone is its own leader and quorum: there any answered
// request proves its own sending.
func (c *leaseClock) prove(from time.Time) {
	if from.After(c.proven) {
		c.proven = from
	}
}

// lasting is how long the session lasts from the proven moment on by our clock,
// which may go slower than the leader's by a hundredth.
func (c *leaseClock) lasting() time.Duration { return c.timeout - c.timeout/100 }

// until is the end of the lease.
func (c *leaseClock) until() time.Time { return c.proven.Add(c.lasting()) }

// left is how long the lease lasts, by both clocks.
func (c *leaseClock) left(now time.Time) time.Duration {
	return c.lasting() - leaseAge(c.proven, now)
}

// enough tells whether the lease lasts until rounds can extend it. With less, a
// lock is not to be reported as held: a check comes first.
func (c *leaseClock) enough(now time.Time) bool {
	return c.left(now) > c.distance()+2*c.pause()
}
