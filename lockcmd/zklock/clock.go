package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A leaseClock computes how long a session, and with it a lock, is certain to last. It sends
// the probes that prove this; doc.go explains how. Its methods are safe for concurrent use,
// but only one goroutine at a time may send probes.
type leaseClock struct {
	s Session

	mu           sync.Mutex // guards the fields below
	proof        proof
	standaloneOn time.Time // start of the last connection to a standalone server; zero if there was none
	checkedOn    time.Time // start of the last connection whose server was checked for being standalone
}

func newLeaseClock(s Session) *leaseClock {
	return &leaseClock{s: s, proof: newProof(s.State(time.Now()).Timeout)}
}

// refresh reads the state of the session and updates the proof. It returns the time at which
// the current connection began, or the zero time without a connection. On a standalone
// server, every answered request extends the lease. If the session ends with its connection,
// so does the lease.
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

// longEnough reports whether the lease lasts until the probes of a held lock can extend it.
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

// checkStandalone finds out, and records, whether the server of the current connection is
// standalone. It returns the time at which that connection began.
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

// runDue sends the next probe if it is due; node is the path of the lock's znode. If runDue
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

// recordAnswer records the result of a request. connBegun is the start of the connection on
// which the request was sent. The answer does not count if the connection has changed since;
// recordAnswer then returns false.
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

// secure makes sure, before a lock is reported as held, that its lease lasts until rounds can
// extend it. If necessary, it sends a short proof. It sends another one only if the answers
// took so long that the lease has ended by then. createSent is the send time of the
// transaction that has just created the lock's znode, or zero if the creation was long ago.
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

// startShort prepares a short proof, and returns the time at which the proof begins. If
// nothing has been proven on the current connection yet, the znode was created on an earlier
// one. In that case a check alone is enough: it proves the connect request. A sync is added
// only if an answer is old enough to prove a later request.
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

// reanchor passes to proof.reanchor the newest answer that had arrived at the time asOf.
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

// leaseAge returns the time from contact, the proven time of a lease, until now. The
// monotonic clock stops while the machine is suspended, and the wall clock may be set. To be
// safe, leaseAge returns the larger of the two ages.
func leaseAge(contact, now time.Time) time.Duration {
	return max(now.Sub(contact), now.Round(0).Sub(contact.Round(0)))
}
