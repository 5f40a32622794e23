package zklock

import "time"

// leaseClock tells for how long a session surely lasts, and with it a lock. It is
// the one place that knows what extends a lease: an answered request, which
// counts from the moment at which it was sent.
type leaseClock struct{ s Session }

// left is how long the lease lasts; it is over at 0.
func (c leaseClock) left() time.Duration {
	return c.s.Timeout() - leaseAge(c.s.LastContact(), time.Now())
}

// end is when the lease is over, if nothing extends it.
func (c leaseClock) end() time.Time { return c.s.LastContact().Add(c.s.Timeout()) }

// leaseAge is how long ago the server has surely heard of us. A suspended
// machine stops the monotonic clock and a set clock moves the other; the larger
// of both is on the safe side.
func leaseAge(contact, now time.Time) time.Duration {
	return max(now.Sub(contact), now.Round(0).Sub(contact.Round(0)))
}
