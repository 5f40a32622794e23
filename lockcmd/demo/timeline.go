package demo

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/zksh/zksh/internal/render"
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

// lasts reports whether the state lasts until the next event. After the other ones, the contender
// continues to wait.
func (s state) lasts() bool { return s != vain && s != refused }

// queued reports whether a contender in this state is waiting for the lock.
func (s state) queued() bool { return s == waits || s == woken }

// An event is a change of a contender's state in a scene, or a single occurrence.
type event struct {
	at        time.Duration // time since the scene began
	contender *contender
	state     state
}

// Text writes the event as one line of text.
func (e event) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s n=%d  %8.1f ms  %3d %s\n",
		e.contender.scheme.name, e.contender.n, ms(e.at), e.contender.number, e.state)
	return err
}

// IsEvent marks event as a render.Event.
func (event) IsEvent() {}

// MarshalJSON encodes the event as one JSON object.
func (e event) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"event", e.state, "scheme", e.contender.scheme.name, "n", e.contender.n,
		"contender", e.contender.number, "ms", ms(e.at)})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// A timeline contains everything that has happened in a scene. The lanes, the printed lines and the
// result are derived from it.
type timeline struct {
	mu           sync.Mutex
	start        time.Time
	events       []event // in the order of time
	acquisitions int     // number of times that a contender acquired the lock
}

// An activity is the present state of one contender.
type activity struct {
	state   state
	ticket  int  // sequence number of the contender's znode, or noTicket if unknown
	waiting bool // whether the contender is blocked until a watch fires or the poll interval ends
	// woken means that a watch has fired since the contender began to wait, and that it has not
	// acquired the lock yet.
	woken bool
}

const noTicket = -1

// past returns the events so far, and the time since the scene began.
func (t *timeline) past() ([]event, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.events), t.elapsed()
}

// elapsed returns the time since the scene began. The caller must hold mu.
func (t *timeline) elapsed() time.Duration {
	now := time.Since(t.start)
	if last := len(t.events) - 1; last >= 0 { // skip has put the clock back
		now = max(now, t.events[last].at)
	}
	return now
}

// skip puts the clock of the scene back by d, so that it does not count a time without events.
func (t *timeline) skip(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start = t.start.Add(d)
}

// record adds an event to the timeline.
func (c *contender) record(s state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked(s)
}

// recordLocked is like record. The caller must hold mu.
func (c *contender) recordLocked(s state) {
	c.events = append(c.events, event{c.elapsed(), c, s})
	if s.lasts() {
		c.state = s
	}
	c.woken = s == woken || c.woken && s != vain && s != holds
	c.waiting = false
	if s == holds || s == left || s == killed {
		c.markArrived()
	}
}

// markArrived closes the channel c.arrived, unless it is already closed. The caller must hold mu.
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
		c.recordLocked(vain)
		c.state = waits
	case c.state != waits:
		c.recordLocked(waits)
	}
	c.waiting = true
	if c.number > 0 { // the starter has arrived only when it holds the lock
		c.markArrived()
	}
	return first
}

// acquired records that the contender has acquired the lock. It returns how often the lock has been
// acquired in this scene.
func (c *contender) acquired() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked(holds)
	c.acquisitions++
	return c.acquisitions
}

// setTicket records the sequence number that the server gave to the contender's znode.
func (c *contender) setTicket(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticket = n
}

// idle reports whether the contender will send no request until the lock is released again.
func (c *contender) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.state.queued() || c.waiting && len(c.wake) == 0
}

// excludes reports whether c and other are different contenders that must not hold the lock
// together.
func (c *contender) excludes(other *contender) bool { return other != c && !(c.reader && other.reader) }

// A tally contains the sums of the events of a timeline.
type tally struct {
	holders   []*contender // contenders that hold the lock
	together  int          // maximum number of contenders that held the lock at the same time
	broken    bool         // whether two contenders that exclude each other have held the lock together
	overtakes int
	useful    int             // wake-ups that led to the contender acquiring the lock
	awake     int             // wake-ups of contenders that have not tried to acquire the lock yet
	handoffs  []time.Duration // from each release to the next acquisition
	left      int             // number of contenders that have released the lock and are done
	killed    event           // event of the contender that was killed; its contender is nil if there is none
}

// tally checks that contenders that exclude each other never hold the lock together, counts how often
// a contender overtakes others, and measures the duration of hand-offs.
func (t *timeline) tally() (y tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	states, awake := map[*contender]state{}, map[*contender]bool{}
	var released time.Duration // time of the latest release, or 0 if there is none
	for _, e := range t.events {
		c := e.contender
		if e.state.lasts() {
			states[c] = e.state
		}
		switch e.state {
		case woken:
			awake[c] = true
		case vain:
			delete(awake, c)
		case holds:
			y.broken = y.broken || slices.ContainsFunc(y.holders, c.excludes)
			if slices.ContainsFunc(c.contenders, func(o *contender) bool {
				return c.excludes(o) && states[o].queued() && o.ticket != noTicket && o.ticket < c.ticket
			}) {
				y.overtakes++
			}
			if awake[c] {
				y.useful++
				delete(awake, c)
			}
			if released > 0 {
				y.handoffs = append(y.handoffs, e.at-released)
			}
			y.holders = append(y.holders, c)
			y.together = max(y.together, len(y.holders))
		case releases:
			y.holders = slices.DeleteFunc(y.holders, func(o *contender) bool { return o == c })
			released = e.at
		case left:
			y.left++
		case killed:
			y.killed = e
		}
	}
	y.awake = len(awake)
	return y
}
