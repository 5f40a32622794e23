package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A leaseClock computes how long the leader is certain to keep a session, and with it the locks
// of the session. It sends requests, called probes, to extend this time; doc.go explains what
// the probes prove. The methods are safe for concurrent use, but only one goroutine at a time
// may send probes.
type leaseClock struct {
	s Session

	mu           sync.Mutex // guards the fields below
	proof        proof
	standaloneOn time.Time // start time of the last connection to a standalone server; zero if there was none
	checkedOn    time.Time // start time of the last connection on which checkStandalone succeeded
}

func newLeaseClock(s Session) *leaseClock {
	return &leaseClock{s: s, proof: newProof(s.State(time.Now()).Timeout)}
}

// refresh updates the lease from the current state of the session. It returns the time at which
// the current connection began, or the zero time if there is no connection. On a standalone
// server, every answered request extends the lease. If the server ends sessions with their
// connections, a lost connection ends the lease.
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

// left returns how long the lease lasts from now on. If the result is 0 or less, the lease
// has ended.
func (c *leaseClock) left() time.Duration {
	c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.left(time.Now())
}

// end returns the time at which the lease ends unless a later proof extends it.
func (c *leaseClock) end() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.until()
}

// longEnough reports whether the probes of a held lock can extend the lease before it ends.
func (c *leaseClock) longEnough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return !c.standaloneOn.IsZero() && c.standaloneOn.Equal(c.proof.begun) && c.proof.left(now) > 0 || c.proof.longEnough(now)
}

// untilDue returns the time until the next probe is due. If no probe is needed, the result is
// longer than the session timeout.
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

// checkStandalone asks whether the server of the current connection is standalone, and records
// the answer. It returns the time at which that connection began.
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

// runDue sends the next probe if it is due. node is the path of the lock's znode. If runDue
// returns an error, the probe does not extend the lease.
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
		// ErrNoAuth proves as much as success: the leader processed the check, and a quorum
		// committed the result.
		if errors.Is(err, zk.ErrNoAuth) {
			err = nil
		}
	}
	if ctx.Err() == nil && !c.recordAnswer(begun, sent, err) && err == nil {
		err = zk.ErrConnectionClosed
	}
	return err
}

// recordAnswer records the result of a request that was sent at the time sent. connBegun is the
// start time of the connection that carried the request. If the connection has changed since,
// recordAnswer ignores the result and returns false.
func (c *leaseClock) recordAnswer(connBegun, sent time.Time, err error) bool {
	now := time.Now()
	same := c.refresh().Equal(connBegun)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !same || connBegun.IsZero() || !c.proof.begun.Equal(connBegun) {
		return false
	}
	if err == nil {
		c.proof.done(sent, now)
	} else {
		c.proof.failed(now)
	}
	return true
}

// secure makes sure that the lease is long enough before the lock is reported as held. If the
// lease is too short, secure extends it with a short proof (see stage). If the lease has ended
// by the time the answers arrive, secure repeats the proof. createSent is the time at which the
// create request for the lock's znode was sent, or zero if that was long ago.
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
			// Do not wait, unless the server has rejected the previous probe.
			case <-time.After(min(c.untilDue(), c.proof.pause())):
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

// startShort prepares a short proof (see stage), and returns the time at which the proof
// begins. On a new connection, a check alone proves the send time of the connect request. If a
// later request was answered long enough ago, a sync and a check prove the send time of that
// request instead. On an old connection, the create request that was sent at createSent takes
// the place of the sync.
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

// reanchor makes the next round begin earlier, if possible (see proof.reanchor). The round then
// relies on the newest answer that had arrived at the time asOf.
func (c *leaseClock) reanchor(asOf time.Time) {
	st := c.s.State(asOf)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proof.reanchor(st.Sent, st.Came)
}

func (c *leaseClock) stage() stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proof.stage
}

// leaseAge returns the age of a lease that counts from the time proven. The monotonic clock
// stops while the machine is suspended, and the wall clock may be set. To be safe, leaseAge
// measures the age with both clocks and returns the greater result.
func leaseAge(proven, now time.Time) time.Duration {
	return max(now.Sub(proven), now.Round(0).Sub(proven.Round(0)))
}
