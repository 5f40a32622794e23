package demo

import (
	"slices"
	"sync"
	"time"
)

// A state is the current activity of a contender, and the name of the event that begins it.
type state string

// States of a contender and momentary events.
const (
	waits    state = "waits"
	woken    state = "woken"
	vain     state = "woken in vain" // woken, but could not acquire the lock
	refused  state = "refused"       // the server rejected a write
	holds    state = "holds"
	releases state = "releases"
	left     state = "left"
	killed   state = "killed"
	gaveUp   state = "gave up" // its predecessor disappeared between the list and the watch
)

// A refereeState contains what the referee knows about one contender.
type refereeState struct {
	state   state
	ticket  int  // sequence number of its znode, or noTicket
	waiting bool // blocked until a watch fires or the poll interval ends
	woken   bool // a watch has fired, and the contender has neither acquired the lock nor waited again
}

const noTicket = -1

// referee observes a scene. It checks that contenders that exclude each other never hold the
// lock at the same time, counts how often contenders overtake others, and measures how long the
// hand-offs take.
type referee struct {
	mu              sync.Mutex
	start           time.Time
	holders         []*contender
	acquisitions    int // how often the lock was acquired
	exclusionBroken bool
	overtakes       int
	usefulWakeups   int // wake-ups after which the contender acquired the lock

	baseline       *traffic  // traffic until all contenders had queued; nil before that moment
	lastRelease    time.Time // time of the last release
	notifiedBefore int       // number of notifications up to lastRelease
	maxNotified    int       // maximum number of notifications between two releases
	handoffs       []time.Duration
}

// setState records and displays a new state or a momentary event of the contender.
func (c *contender) setState(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStateLocked(s)
}

// setStateLocked is like setState, but the caller must hold the referee's mu.
func (c *contender) setStateLocked(s state) {
	switch s {
	case refused, vain: // the contender still waits
	default:
		c.state = s
	}
	c.woken = c.woken || s == woken
	c.waiting = false
	if s == holds || s == left || s == killed || s == gaveUp {
		c.markArrived()
	}
	c.display.add(event{at: time.Since(c.start), scene: c.scene, Contender: c.number, Event: s})
}

// markArrived closes the channel arrived, unless it is already closed.
func (c *contender) markArrived() {
	select {
	case <-c.arrived:
	default:
		close(c.arrived)
	}
}

// beginWait records that the contender waits, and reports whether it waits for the first time.
func (c *contender) beginWait() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.state == ""
	switch {
	case c.woken:
		c.woken = false
		c.setStateLocked(vain)
		c.state = waits
	case c.state != waits:
		c.setStateLocked(waits)
	}
	c.waiting = true
	if c.number > 0 { // the starter counts as arrived when it holds the lock
		c.markArrived()
	}
	return first
}

// idle reports whether the contender has nothing to send until the lock is next released.
func (c *contender) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.isQueued() || c.waiting && len(c.wake) == 0
}

// isQueued reports whether the contender is waiting for the lock.
func (r *refereeState) isQueued() bool { return r.state == waits || r.state == woken }

// setTicket records the sequence number of the contender's znode in the queue.
func (c *contender) setTicket(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticket = n
}

// excludes reports whether c and other must not hold the lock at the same time.
func (c *contender) excludes(other *contender) bool { return other != c && !(c.reader && other.reader) }

// lockAcquired records that the contender has acquired the lock.
func (c *contender) lockAcquired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exclusionBroken = c.exclusionBroken || slices.ContainsFunc(c.holders, c.excludes)
	overtaken := func(o *contender) bool {
		return c.excludes(o) && o.isQueued() && o.ticket != noTicket && o.ticket < c.ticket
	}
	if slices.ContainsFunc(c.contenders, overtaken) {
		c.overtakes++
	}
	if c.woken {
		c.woken = false
		c.usefulWakeups++
	}
	if !c.lastRelease.IsZero() {
		c.handoffs = append(c.handoffs, time.Since(c.lastRelease))
	}
	c.holders = append(c.holders, c)
	c.acquisitions++
	c.setStateLocked(holds)
	if c.killMiddle && c.acquisitions == 2 {
		c.killMiddleWaiter()
	}
}

// lockReleasing records that the contender is about to release the lock.
func (c *contender) lockReleasing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders = slices.DeleteFunc(c.holders, func(o *contender) bool { return o == c })
	c.countNotified()
	c.lastRelease = time.Now()
	c.setStateLocked(releases)
}

// countNotified updates maxNotified with the number of notifications since the last release. The
// caller must hold the referee's mu.
func (s *scene) countNotified() {
	now := s.wires.read().notifications
	if !s.lastRelease.IsZero() {
		s.maxNotified = max(s.maxNotified, now-s.notifiedBefore)
	}
	s.notifiedBefore = now
}

// trafficSoFar returns the traffic since all contenders have queued.
func (s *scene) trafficSoFar() traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.baseline == nil {
		return traffic{}
	}
	return s.wires.read().since(*s.baseline)
}

// mustDieHolding reports whether --kill-holder must kill this contender, because it is the one
// that has acquired the lock in the middle of the scene.
func (c *contender) mustDieHolding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killHolder && c.acquisitions == len(c.contenders)/2+1
}

// killMiddleWaiter kills the contender in the middle of the queue. The caller must hold the
// referee's mu.
func (s *scene) killMiddleWaiter() {
	var waiting []*contender
	for _, o := range s.contenders {
		if o.isQueued() {
			waiting = append(waiting, o)
		}
	}
	if len(waiting) > 0 {
		waiting[len(waiting)/2].kill(errKilled)
	}
}
