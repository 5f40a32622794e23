package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// leaseClock tells for how long a session surely lasts, and with it a lock. It
// runs the errands by which that is proven, and is told by nothing else: see
// doc.go. Those who only ask may do so from any goroutine.
type leaseClock struct {
	s Session

	mu    sync.Mutex
	p     proof
	alone time.Time // when the connection to a server that stands alone had begun; zero without one
	asked time.Time // the same for one whose server was asked whether it does
}

func newLeaseClock(s Session) *leaseClock {
	return &leaseClock{s: s, p: newProof(s.State(time.Now()).Timeout)}
}

// present takes note of the present connection, and returns when it had begun;
// zero without one. A server that stands alone proves all that it has answered. Where
// the session ends with its connection, so does the lease.
func (c *leaseClock) present() time.Time {
	st := c.s.State(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.EndsWithConnection {
		c.p.leave(st.Begun)
	}
	if st.Begun.IsZero() {
		return st.Begun
	}
	c.p.attach(st.Begun)
	if c.alone.Equal(st.Begun) {
		c.p.prove(st.Sent)
	}
	return st.Begun
}

// left is how long the lease lasts; it is over at 0.
func (c *leaseClock) left() time.Duration {
	c.present()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p.left(time.Now())
}

// end is when the lease is over, if nothing extends it.
func (c *leaseClock) end() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p.until()
}

// enough reports whether the lease can be extended in time by what is done while
// the lock is held.
func (c *leaseClock) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return !c.alone.IsZero() && c.alone.Equal(c.p.begun) && c.p.left(now) > 0 || c.p.enough(now)
}

// wait is how long it is until something is to be asked of the server; longer
// than a session lasts if there is nothing.
func (c *leaseClock) wait() time.Duration {
	begun := c.present()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case begun.IsZero() || c.alone.Equal(begun):
		return 2 * c.p.timeout
	case !c.asked.Equal(begun):
		return 0
	}
	_, at := c.p.next()
	return time.Until(at)
}

// ask learns whether the server of the present connection stands alone, and
// returns when that connection had begun.
func (c *leaseClock) ask(ctx context.Context) (begun time.Time, err error) {
	begun = c.present()
	alone, err := standalone(ctx, c.s)
	if err == nil && (begun.IsZero() || !begunAt(c.s).Equal(begun)) {
		err = zk.ErrConnectionClosed
	}
	if err != nil {
		return begun, err
	}
	c.mu.Lock()
	if c.asked = begun; alone {
		c.alone = begun
	}
	c.mu.Unlock()
	c.present()
	return begun, nil
}

// run does what is due, with the own znode, if anything is. An error is a
// request's, which has proven nothing then.
func (c *leaseClock) run(ctx context.Context, node string) error {
	begun, err := c.ask(ctx)
	sent := time.Now()
	c.mu.Lock()
	do, at := c.p.next()
	idle := err != nil || c.alone.Equal(begun) || at.After(sent)
	c.mu.Unlock()
	switch {
	case idle:
		return err
	case do == askSync:
		err = c.s.Sync(ctx, node)
	default:
		err = c.s.Multi(ctx, &zk.CheckVersionRequest{Path: node, Version: -1})
		if errors.Is(err, zk.ErrNoAuth) { // the leader has looked, and a quorum agrees to what it saw
			err = nil
		}
	}
	if ctx.Err() == nil && !c.answered(begun, sent, err) && err == nil {
		err = zk.ErrConnectionClosed
	}
	return err
}

// answered takes the answer to a request that was sent when the present
// connection was the one that had begun then. If it is another one now the answer
// does not count, and the result is false.
func (c *leaseClock) answered(begun, sent time.Time, err error) bool {
	now := time.Now()
	same := c.present().Equal(begun)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !same || begun.IsZero() || !c.p.begun.Equal(begun) {
		return false
	}
	if err == nil {
		c.p.done(sent, now)
	} else {
		c.p.failed(now)
	}
	return true
}

// secure sees to it that the lease lasts until rounds can extend it, for a lock
// that is about to be held: if need be with requests of its own, once, and again
// only if the answers took so long that nothing is left. made is when the
// transaction was sent that has just made the own znode; zero if that is long ago.
func (c *leaseClock) secure(ctx context.Context, made time.Time, node string) error {
	if c.present(); c.enough() {
		return nil
	}
	if _, err := c.ask(ctx); err != nil || c.enough() {
		return err
	}
	for again := true; again; again = c.left() <= 0 {
		from := c.hasten(made)
		made = time.Time{}
		for c.stage() <= short {
			select {
			case <-time.After(min(c.wait(), c.p.pause())): // after a refusal; else at once
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := c.run(ctx, node); err != nil {
				return err
			}
		}
		for age := c.p.old(); age > 0; age -= c.p.pause() / 2 {
			c.lean(from.Add(-age))
		}
	}
	return nil
}

// hasten prepares a hasty proof, and returns when it begins. On a connection that
// nothing is proven of yet the own znode was not made, and a check alone will do
// if nothing has been heard for long enough since its connect request.
func (c *leaseClock) hasten(made time.Time) (from time.Time) {
	now := time.Now()
	fresh := c.stage() == short
	if from = made; fresh || made.IsZero() {
		made, from = time.Time{}, now
	}
	heard := c.s.State(from.Add(-c.p.old())).Sent
	c.mu.Lock()
	defer c.mu.Unlock()
	if fresh && !heard.After(c.p.begun) {
		return from
	}
	if c.p.hasten(heard); !made.IsZero() {
		c.p.done(made, now)
	}
	return from
}

func (c *leaseClock) lean(by time.Time) {
	st := c.s.State(by)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.p.lean(st.Sent, st.Came)
}

func (c *leaseClock) stage() stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p.stage
}

// leaseAge is how long ago the server has surely heard of us. A suspended
// machine stops the monotonic clock and a set clock moves the other; the larger
// of both is on the safe side.
func leaseAge(contact, now time.Time) time.Duration {
	return max(now.Sub(contact), now.Round(0).Sub(contact.Round(0)))
}
