package child

import "time"

// A moment is a point in time, given by two clocks. The monotonic clock stands still while
// the machine sleeps, and the wall clock may be set. A deadline has passed as soon as either
// clock says so.
type moment struct{ monotonic, wall time.Time }

func now() moment { return momentAt(time.Now()) }

func momentAt(t time.Time) moment { return moment{monotonic: t, wall: t.Round(0)} }

// left returns the time from start until m, by the clock that leaves less time.
func (m moment) left(start moment) time.Duration {
	return min(m.monotonic.Sub(start.monotonic), m.wall.Sub(start.wall))
}

// recheckInterval is the longest time between two checks of a deadline. Timers do not
// notice that the machine was asleep.
const recheckInterval = time.Second
