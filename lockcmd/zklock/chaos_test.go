package zklock_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

var (
	chaosTime = flag.Duration("chaos", 20*time.Second, "how long TestChaos makes faults; a minute in make full")
	chaosSeed = flag.Uint64("chaosseed", 0, "of TestChaos's faults; 0 takes one by chance")
)

const (
	chaosClients = 6
	chaosTimeout = 3 * time.Second // session timeout
	longOutage   = 5 * time.Second // ends the sessions
)

// chaos is a run of six clients that contend for a lock, each through a proxy, while faults
// are made.
type chaos struct {
	s           *scene
	server      *zktest.Server
	history     history
	register    register
	actors      []*actor
	faults      atomic.Int64
	lost        atomic.Int64
	isolateNext atomic.Bool   // the next holder is to be isolated
	outage      time.Duration // longest outage so far
}

// CASES.md, case 38: whatever fails, the history is that of a lock (I1, I2), no client
// hangs (I3), and nothing is left (I5, I7).
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaosseed %d", seed)
	server := zktest.Start(t)
	c := &chaos{s: newScene(t, server.Addr()), server: server, history: history{start: time.Now()}}
	defer c.s.finish()
	for i := range chaosClients {
		family := zklock.Families()[i%len(zklock.Families())]
		c.actors = append(c.actors, c.s.proxiedActor(chaosTimeout, zklock.Options{Family: family}))
	}
	over, stop := context.WithTimeout(t.Context(), *chaosTime)
	defer stop()
	var clients sync.WaitGroup
	for i := range c.actors {
		clients.Go(func() { c.contend(over, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	c.makeFaults(over, rand.New(rand.NewPCG(seed, chaosClients)))
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }() // ends with the clients
	isClosedSoon(t, "over", done)
	c.history.check(t)
	t.Logf("%d actions, %d faults, %d locks lost, longest outage %v, longest gap %v",
		len(c.history.list), c.faults.Load(), c.lost.Load(), c.outage, c.history.gap)
	// The holder may be unreachable until its session expires, and a server that restarts
	// gives every session its full timeout again.
	if limit := c.outage + chaosTimeout + zktest.Patience; c.history.gap > limit {
		t.Errorf("nobody got the lock for %v", c.history.gap)
	}
	fullLength := *chaosTime >= time.Minute // in a shorter run, no client may lose a lock
	if c.lost.Load() == 0 && fullLength || c.history.last < *chaosTime/2 {
		t.Errorf("it was not chaos: %d locks lost, the last got after %v", c.lost.Load(), c.history.last)
	}
}

// contend acquires and releases the lock until ctx ends.
func (c *chaos) contend(over context.Context, i int, r *rand.Rand) {
	for over.Err() == nil {
		ctx, cancel := context.WithTimeout(c.s.Context(), 2*longOutage+zktest.Patience)
		if r.IntN(4) == 0 { // gives up early
			cancel()
			ctx, cancel = context.WithTimeout(c.s.Context(), time.Duration(r.IntN(100))*time.Millisecond)
		}
		mode := zklock.Exclusive
		if r.IntN(4) == 0 {
			mode = zklock.Shared
		}
		c.holdOnce(ctx, i, mode, time.Duration(r.IntN(10))*time.Millisecond)
		cancel()
	}
}

// holdOnce acquires the lock, writes to the register, and releases the lock.
func (c *chaos) holdOnce(ctx context.Context, i int, mode zklock.Mode, during time.Duration) {
	a := c.actors[i]
	take := a.lock.Lock
	if mode == zklock.Shared {
		take = a.lock.RLock
	}
	asked := c.history.now()
	lease, err := take(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.s.Errorf("client %d: %v", i, err)
		}
		return
	}
	did := func(kind string, ok bool, from time.Duration) {
		c.history.add(action{kind, i, mode, lease.Token()}, ok, from, c.history.now())
	}
	did("acquire", true, asked)
	wrote := c.history.now()
	did("write", c.register.write(lease.Token()), wrote)
	if c.isolateNext.CompareAndSwap(true, false) {
		during = c.isolate(a.proxy)
	}
	select {
	case <-lease.Lost():
	case <-time.After(during):
	}
	leaving := c.releaseTime(lease)
	err = lease.Unlock(c.s.Context())
	if err != nil && !errors.Is(err, zklock.ErrLost) {
		c.s.Errorf("client %d: unlock: %v", i, err)
	}
	did("release", true, leaving)
}

// isolate stops all traffic of a holder for longer than its session lasts, and returns that
// time.
func (c *chaos) isolate(p *zktest.Proxy) time.Duration {
	p.Hold(true)
	time.AfterFunc(longOutage, func() { // the client does not close before this has run
		p.Cut()
		p.Hold(false)
	})
	return longOutage
}

// releaseTime returns the time until which the client relied on its lock: now, or the end
// of the lease if the lock was lost.
func (c *chaos) releaseTime(lease *zklock.Lease) time.Duration {
	now := c.history.now()
	if !isClosed(lease.Lost()) {
		return now
	}
	c.lost.Add(1)
	return min(now, lease.State().Until.Sub(c.history.start))
}

// makeFaults makes faults until ctx ends, and waits until all are repaired.
func (c *chaos) makeFaults(over context.Context, r *rand.Rand) {
	var mending sync.WaitGroup
	restart := time.After(*chaosTime / 2)
	hole := time.NewTicker(min(*chaosTime/3, 10*time.Second))
	defer hole.Stop()
	freeze := time.NewTicker(min(*chaosTime/5, 7*time.Second))
	defer freeze.Stop()
	for over.Err() == nil {
		select {
		case <-restart:
			down := c.history.now()
			c.server.Restart()
			c.countFault(c.history.now() - down)
		case <-freeze.C: // shorter than the session timeout
			c.countFault(chaosTimeout / 2)
			c.server.Pause()
			pause(over, chaosTimeout/2)
			c.server.Resume()
		case <-hole.C:
			c.countFault(longOutage)
			c.isolateNext.Store(true)
		case <-time.After(time.Duration(100+r.IntN(500)) * time.Millisecond):
			c.smallFault(over, c.actors[r.IntN(chaosClients)].proxy, r, &mending)
		case <-over.Done():
		}
	}
	mending.Wait()
}

// countFault records a fault that lasts for d.
func (c *chaos) countFault(d time.Duration) {
	c.faults.Add(1)
	c.outage = max(c.outage, d)
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// smallFault makes a fault of one connection.
func (c *chaos) smallFault(over context.Context, p *zktest.Proxy, r *rand.Rand, mending *sync.WaitGroup) {
	ops := []int32{jute.OpCreate, jute.OpMulti, jute.OpDelete, jute.OpGetChildren, jute.OpGetData, jute.OpSync}
	op := ops[r.IntN(len(ops))]
	out := time.Duration(r.IntN(500)) * time.Millisecond
	c.countFault(out)
	switch r.IntN(5) {
	case 0:
		p.CutAfterSkipping(op, r.IntN(3))
	case 1:
		p.CutBeforeRequest(op)
	case 2:
		p.Cut()
	case 3:
		p.CutAfterRequest(op)
		fallthrough
	default:
		p.Refuse(true)
		if r.IntN(2) == 0 {
			p.Cut()
		}
		mending.Go(func() {
			pause(over, out)
			p.Refuse(false)
		})
	}
}
