package child

import "time"

// A moment is a point in time on two clocks. The monotonic clock stops while the machine is asleep,
// and an administrator can change the wall clock. A deadline has passed as soon as it has passed on
// either clock.
type moment struct{ monotonic, wall time.Time }

func now() moment { return momentAt(time.Now()) }

func momentAt(t time.Time) moment { return moment{monotonic: t, wall: t.Round(0)} }

// left returns the time from start until m. Of the two clocks, it uses the one on which less
// time is left.
func (m moment) left(start moment) time.Duration {
	return min(m.monotonic.Sub(start.monotonic), m.wall.Sub(start.wall))
}

// recheckInterval is the maximum time between two checks of a deadline. A single long timer is
// not enough, because timers do not notice that the machine was asleep.
const recheckInterval = time.Second
