package child

import "time"

// moment is an instant by two clocks. The monotonic one stands still while the
// machine sleeps, and the other one may be set: a deadline is over as soon as
// either says so.
type moment struct{ monotonic, wall time.Time }

func now() moment { return momentAt(time.Now()) }

func momentAt(t time.Time) moment { return moment{monotonic: t, wall: t.Round(0)} }

// left is how long it is to the moment, seen from another one.
func (m moment) left(from moment) time.Duration {
	return min(m.monotonic.Sub(from.monotonic), m.wall.Sub(from.wall))
}

// lookAgain is how often a deadline is compared with the clocks: no timer tells
// that the machine was asleep.
const recheckInterval = time.Second
