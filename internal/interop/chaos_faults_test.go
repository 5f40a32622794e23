//go:build linux

package interop

import (
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// broke counts a fault.
func (c *chaos) broke(fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[fault]++
}

// pause waits, but not longer than there are faults.
func (c *chaos) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.over.Done():
	}
}

// between is a time by chance.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// breakServers breaks one server after the other until it is over, and mends all.
func (c *chaos) breakServers(r *rand.Rand) {
	kinds := []string{"follower cut off", "leader cut off", "leader killed", "follower killed", "leader muted"}
	for i := 0; c.over.Err() == nil; i++ {
		if i%len(kinds) == 0 {
			r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		c.pause(between(r, time.Second, 3*time.Second))
		if c.over.Err() != nil {
			break
		}
		leader := c.split.Leader()
		follower := (leader + 1 + r.IntN(2)) % 3
		down, cut := between(r, 0, 4*time.Second), between(r, longCut-2*time.Second, longCut+2*time.Second)
		kind := kinds[i%len(kinds)]
		c.broke(kind)
		switch kind {
		case "follower cut off":
			cut += 2 * time.Second // until it has given up
			c.takeAlong(follower, cut)
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

// takeAlong has who is alone with a lock, or will be in a moment, be a client of a
// server, as of the only one that it can reach, and stay in its section for as long
// as it may.
func (c *chaos) takeAlong(server int, d time.Duration) {
	z := c.holder(c.locks[0], c.clients[0])
	if !z.atFault.CompareAndSwap(false, true) {
		return
	}
	if err := os.WriteFile(z.stays(), nil, 0o600); err != nil {
		c.t.Error(err)
	}
	z.proxies[server].Requests() // those of before
	c.mending.Go(func() {
		defer z.atFault.Store(false)
		z.without([]*zktest.Proxy{z.proxies[(server+1)%3], z.proxies[(server+2)%3]}, d)
		if err := os.Remove(z.stays()); err != nil {
			c.t.Error(err)
		}
	})
	for end := time.Now().Add(chaosTimeout / 2); len(z.proxies[server].Requests()) == 0 && time.Now().Before(end); {
		c.pause(10 * time.Millisecond) // until it has moved
	}
}

func (c *chaos) killServer(i int, down time.Duration) {
	c.split.Stop(i)
	c.pause(down)
	c.split.Restart(i)
}

// breakClients breaks one client or another, mostly who holds a lock, until it is
// over. Each is mended in its own time.
func (c *chaos) breakClients(r *rand.Rand) {
	for c.over.Err() == nil {
		c.pause(between(r, 300*time.Millisecond, 3*time.Second))
		z := c.clients[r.IntN(len(c.clients))]
		if lock := c.locks[r.IntN(len(c.locks))]; r.IntN(3) > 0 {
			z = c.holder(lock, z)
		}
		kind := z.choose(r)
		short, long := between(r, 100*time.Millisecond, chaosTimeout/2), between(r, chaosTimeout, chaosTimeout+4*time.Second)
		if c.over.Err() != nil || !z.atFault.CompareAndSwap(false, true) {
			continue
		}
		c.broke(kind)
		c.mending.Go(func() {
			defer z.atFault.Store(false)
			z.breakDown(kind, short, long)
		})
	}
}

// holder is who holds a lock, or will in a moment, or else another.
func (c *chaos) holder(o *oracle, another *contestant) *contestant {
	for range 100 {
		name := o.inside()
		for _, z := range c.clients {
			if z.name == name {
				return z
			}
		}
		c.pause(10 * time.Millisecond)
	}
	return another
}

// signal sends one to the program that is on its way, if there is one, and tells
// which it was.
func (z *contestant) signal(sig syscall.Signal) *os.Process {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.process == nil {
		return nil
	}
	if z.now != nil {
		z.now.killed = z.now.killed || sig == syscall.SIGKILL
		z.now.termed = z.now.termed || sig == syscall.SIGTERM
	}
	if z.driver != nil && sig == syscall.SIGKILL {
		z.driver.kill()
	}
	_ = z.process.Signal(sig) // it may have ended
	return z.process
}

// choose picks a fault that the client can have.
func (z *contestant) choose(r *rand.Rand) string {
	kinds := []string{"reset", "refused", "silent", "one server left", "unreachable", "killed"}
	if !z.noStop {
		kinds = append(kinds, "stopped", "stopped for long", "stopped and killed")
	}
	if z.mode != foreign && !z.noStop && z.name != "batch" {
		kinds = append(kinds, "terminated") // of a batch it would end one command, or all
	}
	return kinds[r.IntN(len(kinds))]
}

// breakDown makes a fault of the client's own, and mends it.
func (z *contestant) breakDown(kind string, short, long time.Duration) {
	switch kind {
	case "reset":
		for _, p := range z.proxies {
			p.Cut()
		}
	case "refused":
		z.without(z.proxies, short)
	case "silent":
		z.hold(z.proxies, short)
	case "one server left":
		z.hold(z.proxies[:2], long)
	case "unreachable":
		z.hold(z.proxies, long)
	case "killed":
		z.signal(syscall.SIGKILL)
	case "terminated":
		z.signal(syscall.SIGTERM)
	case "stopped":
		z.stop(short, syscall.SIGCONT)
	case "stopped for long":
		z.stop(long, syscall.SIGCONT)
	case "stopped and killed":
		z.stop(short, syscall.SIGKILL)
	}
}

// hold has servers be silent.
func (z *contestant) hold(proxies []*zktest.Proxy, d time.Duration) {
	for _, p := range proxies {
		p.Hold(true)
	}
	z.c.pause(d)
	for _, p := range proxies {
		p.Hold(false)
	}
}

// without has servers be closed.
func (z *contestant) without(proxies []*zktest.Proxy, d time.Duration) {
	for _, p := range proxies {
		p.Refuse(true)
		p.Cut()
	}
	z.c.pause(d)
	for _, p := range proxies {
		p.Refuse(false)
	}
}

// stop stops the program that is on its way, and then lets it go on or kills it. No
// other takes its place meanwhile.
func (z *contestant) stop(d time.Duration, then syscall.Signal) {
	if z.signal(syscall.SIGSTOP) != nil {
		z.c.pause(d)
		z.signal(then)
	}
}
