//go:build linux

package interop

import (
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// countFault counts a fault.
func (c *chaos) countFault(fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[fault]++
}

// pause waits for d, but not longer than until the end of the faults.
func (c *chaos) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.faultCtx.Done():
	}
}

// randomDuration returns a random duration from least up to, but not including, most.
func randomDuration(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// breakServers injects faults into one server after the other until the end of the faults. It
// repairs each of them.
func (c *chaos) breakServers(r *rand.Rand) {
	kinds := []string{"follower cut off", "leader cut off", "leader killed", "follower killed", "leader muted"}
	for i := 0; c.faultCtx.Err() == nil; i++ {
		if i%len(kinds) == 0 {
			r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		c.pause(randomDuration(r, time.Second, 3*time.Second))
		if c.faultCtx.Err() != nil {
			break
		}
		leader := c.split.Leader()
		follower := (leader + 1 + r.IntN(2)) % 3
		down, cut := randomDuration(r, 0, 4*time.Second), randomDuration(r, longCut-2*time.Second, longCut+2*time.Second)
		kind := kinds[i%len(kinds)]
		c.countFault(kind)
		switch kind {
		case "follower cut off":
			cut += 2 * time.Second // until the follower has given up
			c.bindHolderTo(follower, cut)
			c.split.Isolate(follower)
			c.pause(cut)
		case "leader cut off":
			c.split.Isolate(leader)
			c.pause(cut)
		case "leader muted":
			c.split.Mute(leader)
			c.pause(cut)
		case "leader killed":
			c.killServer(leader, down)
		case "follower killed":
			c.killServer(follower, down)
		}
		c.split.Heal()
	}
}

// bindHolderTo makes the holder of the exclusive lock, or the next holder, a client of the
// given server by making the others unreachable for it. It also makes the holder stay in its
// section for as long as it may.
func (c *chaos) bindHolderTo(server int, d time.Duration) {
	z := c.holder(c.locks[0], c.clients[0])
	if !z.faulty.CompareAndSwap(false, true) {
		return
	}
	zktest.Check(c.t, os.WriteFile(z.holdFile(), nil, 0o600))
	z.proxies[server].Requests() // discard earlier requests
	c.repairs.Go(func() {
		defer z.faulty.Store(false)
		z.refuse([]*zktest.Proxy{z.proxies[(server+1)%3], z.proxies[(server+2)%3]}, d)
		zktest.Check(c.t, os.Remove(z.holdFile()))
	})
	for end := time.Now().Add(chaosTimeout / 2); len(z.proxies[server].Requests()) == 0 && time.Now().Before(end); {
		c.pause(10 * time.Millisecond) // until the client has connected to the server
	}
}

func (c *chaos) killServer(i int, down time.Duration) {
	c.split.Stop(i)
	c.pause(down)
	c.split.Restart(i)
}

// breakClients injects faults into random clients, mostly holders of a lock, until the end of
// the faults. Each fault is repaired independently.
func (c *chaos) breakClients(r *rand.Rand) {
	for c.faultCtx.Err() == nil {
		c.pause(randomDuration(r, 300*time.Millisecond, 3*time.Second))
		z := c.clients[r.IntN(len(c.clients))]
		if lock := c.locks[r.IntN(len(c.locks))]; r.IntN(3) > 0 {
			z = c.holder(lock, z)
		}
		kind := z.chooseFault(r)
		short, long := randomDuration(r, 100*time.Millisecond, chaosTimeout/2), randomDuration(r, chaosTimeout, chaosTimeout+4*time.Second)
		if c.faultCtx.Err() != nil || !z.faulty.CompareAndSwap(false, true) {
			continue
		}
		c.countFault(kind)
		c.repairs.Go(func() {
			defer z.faulty.Store(false)
			z.applyFault(kind, short, long)
		})
	}
}

// holder returns the holder of a lock. If nobody holds it, holder waits for up to a second
// and then returns another.
func (c *chaos) holder(o *oracle, another *chaosClient) *chaosClient {
	for range 100 {
		name := o.lastInside()
		for _, z := range c.clients {
			if z.name == name {
				return z
			}
		}
		c.pause(10 * time.Millisecond)
	}
	return another
}

// signal sends a signal to the client's current program. It returns its process, or nil if
// there is none.
func (z *chaosClient) signal(sig syscall.Signal) *os.Process {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.process == nil {
		return nil
	}
	if z.currentTrip != nil {
		z.currentTrip.killed = z.currentTrip.killed || sig == syscall.SIGKILL
		z.currentTrip.terminated = z.currentTrip.terminated || sig == syscall.SIGTERM
	}
	if z.driver != nil && sig == syscall.SIGKILL {
		z.driver.kill()
	}
	_ = z.process.Signal(sig) // fails if the process has ended
	return z.process
}

// chooseFault returns a random fault that is possible for the client.
func (z *chaosClient) chooseFault(r *rand.Rand) string {
	kinds := []string{"reset", "refused", "silent", "one server left", "unreachable", "killed"}
	if !z.neverStopped {
		kinds = append(kinds, "stopped", "stopped for long", "stopped and killed")
	}
	if z.mode != foreign && !z.neverStopped && z.name != "batch" {
		kinds = append(kinds, "terminated") // in a batch, SIGTERM may end one command or all
	}
	return kinds[r.IntN(len(kinds))]
}

// applyFault injects a fault into the client, and repairs it.
func (z *chaosClient) applyFault(kind string, short, long time.Duration) {
	switch kind {
	case "reset":
		for _, p := range z.proxies {
			p.Cut()
		}
	case "refused":
		z.refuse(z.proxies, short)
	case "silent":
		z.silence(z.proxies, short)
	case "one server left":
		z.silence(z.proxies[:2], long)
	case "unreachable":
		z.silence(z.proxies, long)
	case "killed":
		z.signal(syscall.SIGKILL)
	case "terminated":
		z.signal(syscall.SIGTERM)
	case "stopped":
		z.pause(short, syscall.SIGCONT)
	case "stopped for long":
		z.pause(long, syscall.SIGCONT)
	case "stopped and killed":
		z.pause(short, syscall.SIGKILL)
	}
}

// silence makes servers silent for d: connections stay open, but no data pass.
func (z *chaosClient) silence(proxies []*zktest.Proxy, d time.Duration) {
	for _, p := range proxies {
		p.Hold(true)
	}
	z.chaos.pause(d)
	for _, p := range proxies {
		p.Hold(false)
	}
}

// refuse makes servers unreachable for d: connections are closed and new ones are refused.
func (z *chaosClient) refuse(proxies []*zktest.Proxy, d time.Duration) {
	for _, p := range proxies {
		p.Refuse(true)
		p.Cut()
	}
	z.chaos.pause(d)
	for _, p := range proxies {
		p.Refuse(false)
	}
}

// pause stops the current program for d, and then sends it SIGCONT or SIGKILL. The client
// cannot start another program meanwhile.
func (z *chaosClient) pause(d time.Duration, then syscall.Signal) {
	if z.signal(syscall.SIGSTOP) != nil {
		z.chaos.pause(d)
		z.signal(then)
	}
}
