package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A leaseClock knows for how long a session, and with it a lock, is certain to last. It
// sends the probes that prove this; see doc.go. Its methods are safe for concurrent use,
// but only one goroutine at a time may send probes.
type leaseClock struct {
	s Session

	mu           sync.Mutex // guards the fields below
	proof        proof
	standaloneOn time.Time // Begun of the connection to a standalone server; zero without one
	checkedOn    time.Time // Begun of the connection whose server was asked whether it is standalone
}

func newLeaseClock(s Session) *leaseClock {
	return &leaseClock{s: s, proof: newProof(s.State(time.Now()).Timeout)}
}

// refresh reads the state of the session, updates the proof, and returns Begun of the
// current connection, which is zero without a connection. A standalone server proves every
// request that it has answered. If the session ends with its connection, so does the lease.
func (c *leaseClock) refresh() time.Time {
	st := c.s.State(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.EndsWithConnection {
		c.proof.endWithConnection(st.Begun)
	}
	if st.Begun.IsZero() {
		return st.Begun
	}
	c.proof.attach(st.Begun)
	if c.standaloneOn.Equal(st.Begun) {
		c.proof.prove(st.Sent)
	}
	return st.Begun
}

// left returns how long the lease lasts. The lease has ended if it is 0 or less.
func (c *leaseClock) left() time.Duration {
	c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.left(time.Now())
}

// end returns the end of the lease, unless a later proof extends it.
func (c *leaseClock) end() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.until()
}

// longEnough reports whether the lease lasts until the probes of a held lock extend it.
func (c *leaseClock) longEnough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return !c.standaloneOn.IsZero() && c.standaloneOn.Equal(c.proof.begun) && c.proof.left(now) > 0 || c.proof.longEnough(now)
}

// untilDue returns the time until the next probe is due. It is longer than the session
// timeout if no probe is needed.
func (c *leaseClock) untilDue() time.Duration {
	begun := c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case begun.IsZero() || c.standaloneOn.Equal(begun):
		return 2 * c.proof.timeout
	case !c.checkedOn.Equal(begun):
		return 0
	}
	_, at := c.proof.next()
	return time.Until(at)
}

// checkStandalone finds out whether the server of the current connection is standalone, and
// returns Begun of that connection.
func (c *leaseClock) checkStandalone(ctx context.Context) (begun time.Time, err error) {
	begun = c.refresh()
	alone, err := isStandalone(ctx, c.s)
	if err == nil && (begun.IsZero() || !begunAt(c.s).Equal(begun)) {
		err = zk.ErrConnectionClosed
	}
	if err != nil {
		return begun, err
	}
	c.mu.Lock()
	if c.checkedOn = begun; alone {
		c.standaloneOn = begun
	}
	c.mu.Unlock()
	c.refresh()
	return begun, nil
}

// runDue sends the probe that is due, if there is one; node is the lock's znode. If it
// returns an error, the probe has proven nothing.
func (c *leaseClock) runDue(ctx context.Context, node string) error {
	begun, err := c.checkStandalone(ctx)
	sent := time.Now()
	c.mu.Lock()
	do, at := c.proof.next()
	idle := err != nil || c.standaloneOn.Equal(begun) || at.After(sent)
	c.mu.Unlock()
	switch {
	case idle:
		return err
	case do == probeSync:
		err = c.s.Sync(ctx, node)
	default:
		err = c.s.Multi(ctx, &zk.CheckVersionRequest{Path: node, Version: -1})
		if errors.Is(err, zk.ErrNoAuth) { // the leader has evaluated the check, and a quorum agreed on the result
			err = nil
		}
	}
	if ctx.Err() == nil && !c.recordAnswer(begun, sent, err) && err == nil {
		err = zk.ErrConnectionClosed
	}
	return err
}

// recordAnswer records the result of a request that was sent on the connection that began
// at begun. It reports whether the answer counts: it does not if the connection has
// changed.
func (c *leaseClock) recordAnswer(begun, sent time.Time, err error) bool {
	now := time.Now()
	same := c.refresh().Equal(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !same || begun.IsZero() || !c.proof.begun.Equal(begun) {
		return false
	}
	if err == nil {
		c.proof.done(sent, now)
	} else {
		c.proof.failed(now)
	}
	return true
}

// secure makes sure that the lease of a lock that is about to be held lasts until rounds
// can extend it. If necessary, it sends a short proof. It repeats this only if the answers
// took so long that nothing of the lease is left. createSent is the time at which the
// transaction that has just created the lock's znode was sent; it is zero if that is long
// ago.
func (c *leaseClock) secure(ctx context.Context, createSent time.Time, node string) error {
	if c.refresh(); c.longEnough() {
		return nil
	}
	if _, err := c.checkStandalone(ctx); err != nil || c.longEnough() {
		return err
	}
	for again := true; again; again = c.left() <= 0 {
		from := c.startShort(createSent)
		createSent = time.Time{}
		for c.stage() <= shortCheck {
			select {
			case <-time.After(min(c.untilDue(), c.proof.pause())): // waits only after a rejected probe
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := c.runDue(ctx, node); err != nil {
				return err
			}
		}
		for age := c.proof.minAge(); age > 0; age -= c.proof.pause() / 2 {
			c.reanchor(from.Add(-age))
		}
	}
	return nil
}

// startShort prepares a short proof, and returns the time at which it begins. If nothing is
// proven on this connection yet, the znode was created on an earlier one. A check alone is
// then enough, which proves the connect request, unless an answer is old enough to prove a
// later request.
func (c *leaseClock) startShort(createSent time.Time) (from time.Time) {
	now := time.Now()
	fresh := c.stage() == shortCheck
	if from = createSent; fresh || createSent.IsZero() {
		createSent, from = time.Time{}, now
	}
	answered := c.s.State(from.Add(-c.proof.minAge())).Sent
	c.mu.Lock()
	defer c.mu.Unlock()
	if fresh && !answered.After(c.proof.begun) {
		return from
	}
	if c.proof.startShort(answered); !createSent.IsZero() {
		c.proof.done(createSent, now)
	}
	return from
}

// reanchor offers the proof the newest answer that had come at the time by.
func (c *leaseClock) reanchor(by time.Time) {
	st := c.s.State(by)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proof.reanchor(st.Sent, st.Came)
}

func (c *leaseClock) stage() stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.stage
}

// leaseAge returns the age of a proof. A suspended machine stops the monotonic clock, and
// setting the clock changes the wall clock; the larger of both ages is on the safe side.
func leaseAge(contact, now time.Time) time.Duration {
	return max(now.Sub(contact), now.Round(0).Sub(contact.Round(0)))
}
