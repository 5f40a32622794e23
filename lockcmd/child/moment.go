package child

import "time"

// moment is an instant by two clocks. The monotonic one stands still while the
// machine sleeps, and the other one may be set: a deadline is over as soon as
// either says so.
type moment struct{ steady, wall time.Time }

func now() moment { return at(time.Now()) }

func at(t time.Time) moment { return moment{steady: t, wall: t.Round(0)} }

// left is how long it is to the moment, seen from another one.
func (m moment) left(from moment) time.Duration {
	return min(m.steady.Sub(from.steady), m.wall.Sub(from.wall))
}

// lookAgain is how often a deadline is compared with the clocks: no timer tells
// that the machine was asleep.
const lookAgain = time.Second
