package demo

import (
	"slices"
	"sync"
	"time"
)

// state is what a contender does, and what its event is called.
type state string

// The states, and moments, of a contender.
const (
	waits    state = "waits"
	woken    state = "woken"
	vain     state = "woken in vain" // woken, and not first
	refused  state = "refused"       // a write of it was
	holds    state = "holds"
	releases state = "releases"
	left     state = "left"
	killed   state = "killed"
	lostTurn state = "gave up" // its predecessor had vanished between the list and the watch
)

// role is what the referee knows of a contender.
type role struct {
	state  state
	ticket int  // its place by the server's numbers
	parked bool // it waits, and there is nothing to be done
	woken  bool // and has not said since whether it is the first
}

const noTicket = -1

// referee watches a scene: that nobody holds the lock beside somebody who excludes
// it, who overtakes whom, and how long each hand-off takes.
type referee struct {
	mu       sync.Mutex
	start    time.Time
	inside   []*contender
	turns    int // how often the lock was got
	broken   bool
	overtook int
	useful   int // wake-ups that led to the lock

	base     *traffic  // when all had queued; nil before
	released time.Time // when the lock was given back last
	notified int       // notifications until then
	largest  int       // notifications between two releases
	handoffs []time.Duration
}

// tell shows what happens to a contender.
func (c *contender) tell(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.is(s)
}

// is is tell with the referee's lock held.
func (c *contender) is(s state) {
	switch s {
	case refused, vain: // it goes on waiting
	default:
		c.state = s
	}
	c.woken = c.woken || s == woken
	c.parked = false
	if s == holds || s == left || s == killed || s == lostTurn {
		c.arrive()
	}
	c.show.say(event{at: time.Since(c.start), scene: c.scene, Contender: c.number, Event: s})
}

// arrive tells the scene that the contender has queued.
func (c *contender) arrive() {
	select {
	case <-c.queued:
	default:
		close(c.queued)
	}
}

// park is for a contender that waits now. It reports whether it is for the first time.
func (c *contender) park() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.state == ""
	switch {
	case c.woken:
		c.woken = false
		c.is(vain)
		c.state = waits
	case c.state != waits:
		c.is(waits)
	}
	c.parked = true
	if c.number > 0 { // the starter has to hold the lock
		c.arrive()
	}
	return first
}

// idle reports whether nothing is left to be done before the lock is released.
func (c *contender) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.queues() || c.parked && len(c.wake) == 0
}

// queues reports whether it wants the lock, and has not got it yet.
func (r *role) queues() bool { return r.state == waits || r.state == woken }

// takeTicket notes the contender's place by the server's numbers.
func (c *contender) takeTicket(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticket = n
}

// excludes reports whether two may not hold the lock together.
func (c *contender) excludes(o *contender) bool { return o != c && !(c.reader && o.reader) }

// enters is for a contender that has got the lock.
func (c *contender) enters() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = c.broken || slices.ContainsFunc(c.inside, c.excludes)
	overtaken := func(o *contender) bool {
		return c.excludes(o) && o.queues() && o.ticket != noTicket && o.ticket < c.ticket
	}
	if slices.ContainsFunc(c.cast, overtaken) {
		c.overtook++
	}
	if c.woken {
		c.woken = false
		c.useful++
	}
	if !c.released.IsZero() {
		c.handoffs = append(c.handoffs, time.Since(c.released))
	}
	c.inside = append(c.inside, c)
	c.turns++
	c.is(holds)
	if c.killMiddle && c.turns == 2 {
		c.killOneWaiting()
	}
}

// leaves is for a contender that is about to release the lock.
func (c *contender) leaves() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside = slices.DeleteFunc(c.inside, func(o *contender) bool { return o == c })
	c.countNotified()
	c.released = time.Now()
	c.is(releases)
}

// countNotified takes note of what the last release has set off. It is called with
// the referee's lock held.
func (s *scene) countNotified() {
	now := s.wires.read().notifications
	if !s.released.IsZero() {
		s.largest = max(s.largest, now-s.notified)
	}
	s.notified = now
}

// soFar is what has gone over the wires since all have queued.
func (s *scene) soFar() traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base == nil {
		return traffic{}
	}
	return s.wires.read().since(*s.base)
}

// diesHolding reports whether the contender is the one that dies under the lock: it
// has got it in the middle of the scene.
func (c *contender) diesHolding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killHolder && c.turns == len(c.cast)/2+1
}

// killOneWaiting kills the middle one of those that wait. It is called with the
// referee's lock held.
func (s *scene) killOneWaiting() {
	var waiting []*contender
	for _, o := range s.cast {
		if o.queues() {
			waiting = append(waiting, o)
		}
	}
	if len(waiting) > 0 {
		waiting[len(waiting)/2].kill(errKilled)
	}
}
