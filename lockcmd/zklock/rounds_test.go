package zklock

import (
	"testing"
	"time"
)

// script drives a proof of a session of 32 s: the pause is 2 s, and the gap 8 s.
type script struct {
	*testing.T
	c   proof
	now time.Time
}

func newScript(t *testing.T) *script {
	return &script{t, newProof(32 * time.Second), time.Now()}
}

// at returns the time that is so many seconds after the beginning.
func (s *script) at(seconds float64) time.Time {
	return s.now.Add(time.Duration(seconds * float64(time.Second)))
}

// expect checks that the next probe is want, and that it is due so many seconds after the
// beginning.
func (s *script) expect(want probe, seconds float64) {
	s.Helper()
	do, due := s.c.next()
	if do != want {
		s.Fatalf("errand %d, not %d", do, want)
	}
	if due.IsZero() {
		due = s.now
	}
	if got := due.Sub(s.now).Seconds(); got != seconds {
		s.Errorf("due after %v s, not %v s", got, seconds)
	}
}

// leased checks that the lease counts from so many seconds after the beginning.
func (s *script) leased(seconds float64) {
	s.Helper()
	if got := s.c.until().Sub(s.at(seconds)); got != 31680*time.Millisecond {
		s.Errorf("the lease ends %v after second %v", got, seconds)
	}
}

func TestRoundsProveTheRoundBefore(t *testing.T) {
	s := newScript(t)
	if s.c.left(s.now) > 0 || s.c.longEnough(s.now) {
		t.Error("a lease without any proof")
	}
	s.c.attach(s.at(0))
	s.expect(probeCheck, 0)
	s.c.done(s.at(0.5), s.at(1))
	s.leased(0)
	s.expect(probeSync, 11)
	s.c.done(s.at(10), s.at(10.5))
	s.expect(probeSync, 12.5)
	s.c.done(s.at(12.5), s.at(13))
	s.expect(probeCheck, 13)
	s.leased(0)
	s.c.done(s.at(13), s.at(14))
	s.leased(0.5) // from the check after the attach
	s.expect(probeSync, 22)
	s.c.done(s.at(22), s.at(22))
	s.c.done(s.at(24), s.at(24))
	s.c.done(s.at(24), s.at(24))
	s.leased(10)
}

func TestRoundVoidOnAnotherConnection(t *testing.T) {
	s := newScript(t)
	s.c.attach(s.at(0))
	s.c.done(s.at(0), s.at(0))
	s.c.done(s.at(8), s.at(8))
	s.c.done(s.at(10), s.at(10))
	s.c.attach(s.at(0)) // the same connection again
	s.expect(probeCheck, 10)
	s.c.attach(s.at(10.5))
	s.leased(0) // the proof of the old connection stays valid
	s.expect(probeCheck, 0)
	s.c.done(s.at(11), s.at(11))
	s.leased(10.5)
	s.expect(probeSync, 21)
}

func TestRoundFailedBeginsAnew(t *testing.T) {
	s := newScript(t)
	s.c.attach(s.at(0))
	s.c.done(s.at(0), s.at(0))
	s.c.done(s.at(8), s.at(8))
	s.c.failed(s.at(10))
	s.expect(probeSync, 12)
	s.c.done(s.at(12), s.at(12))
	s.c.done(s.at(14), s.at(14))
	s.c.done(s.at(14), s.at(14))
	s.leased(0)
	s.c.attach(s.at(15))
	s.c.failed(s.at(16))
	s.expect(probeCheck, 18)
}

func TestLockOnOldConnection(t *testing.T) {
	s := newScript(t)
	s.c.attach(s.at(-100))
	s.c.done(s.at(0), s.at(0)) // the create of the znode
	s.leased(-100)
	if s.c.longEnough(s.at(0)) {
		t.Fatal("a lease that is over is enough")
	}
	s.c.startShort(s.at(-11))
	s.expect(probeSync, 0)
	s.c.done(s.at(0), s.at(0)) // the same create
	s.expect(probeCheck, 0)
	s.c.done(s.at(0), s.at(1))
	s.leased(-11)
	s.expect(probeSync, 11)
	if !s.c.longEnough(s.at(1)) {
		t.Error("not enough for a lock that is held")
	}
}

// A lease that has ended begins again only by a later proof. An older proof never shortens
// a lease.
func TestLeaseOver(t *testing.T) {
	s := newScript(t)
	s.c.prove(s.at(5))
	s.c.prove(s.at(3))
	s.leased(5)
	if s.c.left(s.at(36.6)) <= 0 || s.c.left(s.at(36.7)) > 0 {
		t.Error("the lease is not what it should be")
	}
	s.c.attach(s.at(40))
	if s.c.left(s.at(40)) > 0 {
		t.Error("a connection alone gave the lease again")
	}
	s.c.done(s.at(40), s.at(40))
	s.leased(40)
}

// After a short proof, the first round proves a request that was answered meanwhile, if it
// can begin sooner that way.
func TestLeanOnAnOlderAnswer(t *testing.T) {
	hasty := func() *script {
		s := newScript(t)
		s.c.attach(s.at(-100))
		s.c.done(s.at(0), s.at(0))
		s.c.startShort(s.at(-20))
		s.c.done(s.at(0), s.at(0))
		s.c.done(s.at(0), s.at(0))
		s.leased(-20)
		return s
	}
	s := hasty()
	s.c.reanchor(s.at(-21), s.at(-20)) // proven already
	s.c.reanchor(s.at(-0.5), s.at(0))  // not sooner
	s.expect(probeSync, 10)
	s.c.reanchor(s.at(-9), s.at(-8))
	s.expect(probeSync, 2)
	s.c.reanchor(s.at(-7), s.at(-6)) // not sooner than the last
	s.expect(probeSync, 2)
	s.c.done(s.at(2), s.at(2))
	s.c.done(s.at(4), s.at(4))
	s.leased(-20)
	s.c.done(s.at(4), s.at(4))
	s.leased(-9)
	s.expect(probeSync, 12)
}
