package demo

import (
	"slices"
	"sync"
	"time"
)

// A state is the current activity of a contender. The event that begins it has the same name.
type state string

// States of a contender, and single occurrences such as a rejected write.
const (
	waits    state = "waits"
	woken    state = "woken"
	vain     state = "woken in vain" // a watch fired, but the contender could not acquire the lock
	refused  state = "refused"       // the server rejected a write
	holds    state = "holds"
	releases state = "releases"
	left     state = "left"
	killed   state = "killed"
)

// A refereeState is the referee's record of one contender.
type refereeState struct {
	state   state
	ticket  int  // sequence number of the contender's znode, or noTicket if unknown
	waiting bool // whether the contender is blocked until a watch fires or the poll interval ends
	// woken means that a watch has fired since the contender began to wait, and that it has not
	// acquired the lock yet.
	woken bool
}

const noTicket = -1

// A referee observes all contenders of a scene. It checks that contenders that exclude each other
// never hold the lock together. It counts how often a contender overtakes others, and measures
// the duration of hand-offs.
type referee struct {
	mu              sync.Mutex
	start           time.Time
	stopped         time.Time     // when the clock of the scene was stopped, or zero if it is running
	stoppedFor      time.Duration // total time for which the clock was stopped before
	holders         []*contender
	acquisitions    int // number of times that a contender acquired the lock
	exclusionBroken bool
	overtakes       int
	usefulWakeups   int // wake-ups that led to the contender acquiring the lock

	lastRelease time.Duration // time of the latest release, or 0 if there is none
	handoffs    []time.Duration
}

// elapsed returns the time since the scene began.
func (r *referee) elapsed() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elapsedLocked()
}

// elapsedLocked is like elapsed. The caller must hold mu.
func (r *referee) elapsedLocked() time.Duration {
	if !r.stopped.IsZero() {
		return r.stopped.Sub(r.start) - r.stoppedFor
	}
	return time.Since(r.start) - r.stoppedFor
}

// stopClock calls wait, and makes the clock of the scene advance by no more than limit meanwhile.
// Only one contender may call it at a time.
func (r *referee) stopClock(limit time.Duration, wait func() error) error {
	r.mu.Lock()
	r.stopped = time.Now()
	r.mu.Unlock()
	err := wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stoppedFor += max(0, time.Since(r.stopped)-limit)
	r.stopped = time.Time{}
	return err
}

// setState sets the contender's state, or records a single occurrence, and displays it.
func (c *contender) setState(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setStateLocked(s)
}

// setStateLocked is like setState. The caller must hold the referee's mu.
func (c *contender) setStateLocked(s state) {
	switch s {
	case refused, vain: // the contender continues to wait
	default:
		c.state = s
	}
	c.woken = c.woken || s == woken
	c.waiting = false
	if s == holds || s == left || s == killed {
		c.markArrived()
	}
	c.display.add(event{at: c.elapsedLocked(), scene: c.scene, Contender: c.number, Event: s})
}

// markArrived closes the channel c.arrived, unless it is already closed.
func (c *contender) markArrived() {
	select {
	case <-c.arrived:
	default:
		close(c.arrived)
	}
}

// beginWait records that the contender begins to wait. It reports whether this is its first wait.
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
	if c.number > 0 { // the starter has arrived only when it holds the lock
		c.markArrived()
	}
	return first
}

// idle reports whether the contender will send no request until the lock is released again.
func (c *contender) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.isQueued() || c.waiting && len(c.wake) == 0
}

// isQueued reports whether the contender is waiting for the lock.
func (r *refereeState) isQueued() bool { return r.state == waits || r.state == woken }

// setTicket records the sequence number that the server gave to the contender's znode.
func (c *contender) setTicket(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticket = n
}

// excludes reports whether c and other are different contenders that must not hold the lock
// together.
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
	if c.lastRelease > 0 {
		c.handoffs = append(c.handoffs, c.elapsedLocked()-c.lastRelease)
	}
	c.holders = append(c.holders, c)
	c.acquisitions++
	c.setStateLocked(holds)
}

// lockReleasing records that the contender is about to release the lock.
func (c *contender) lockReleasing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders = slices.DeleteFunc(c.holders, func(o *contender) bool { return o == c })
	c.lastRelease = c.elapsedLocked()
	c.setStateLocked(releases)
}

// mustDieHolding reports whether the contender must be killed while it holds the lock. With
// --kill-holder, this is the contender that acquires the lock in the middle of the scene.
func (c *contender) mustDieHolding() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killHolder && c.acquisitions == len(c.contenders)/2+1
}
