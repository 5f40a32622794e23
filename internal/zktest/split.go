package zktest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// Split is an ensemble whose members reach one another through proxies only, so
// that a network between them can be broken while their clients stay connected.
type Split struct {
	tb      testing.TB
	servers []*Server

	mu    sync.Mutex // until all roads are laid
	roads map[road]*Proxy
}

// road is one way for a member, by its number from 0, to connect to another: to
// the port of the quorum or to that of elections.
type road struct {
	from, to int
	election bool
}

// StartSplit starts three servers that replicate one another, with ZooKeeper's
// usual ticks, and returns once they all serve clients. They end as one of
// Start's does.
func StartSplit(tb testing.TB, opts ...Option) *Split {
	tb.Helper()
	s := &Split{tb: tb, roads: map[road]*Proxy{}}
	c := newConfig(append([]Option{Ticks(2000, 10, 5)}, opts...))
	c.quorum, c.members, c.view = true, 3, s.view
	// With reconfiguration the members would agree on one list of addresses.
	c.lines = append(c.lines, "reconfigEnabled=false")
	s.servers = startMembers(tb, c)
	return s
}

// view is how a member sees another one: behind proxies.
func (s *Split) view(self, other member) member {
	from, to := self.id-1, other.id-1
	other.quorum = s.lay(road{from, to, false}, other.quorum, func([]byte) {})
	// Of two members the one with the larger number makes the connection for
	// elections. The other one only knocks, and says at which address it is to be
	// called back: it has to be that of a proxy, too. Our ports have five digits.
	own := []byte(loopback(self.election))
	other.election = s.lay(road{from, to, true}, other.election, func(sent []byte) {
		if i := bytes.Index(sent, own); i >= 0 {
			copy(sent[i:], s.proxy(road{to, from, true}).Addr())
		}
	})
	return other
}

// lay starts the proxy of a road to a port, and returns the port of the proxy.
func (s *Split) lay(r road, port int, stream func(sent []byte)) int {
	p := startProxy(s.tb, &Proxy{target: loopback(port), stream: stream})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roads[r] = p
	return p.listener.Addr().(*net.TCPAddr).Port
}

func (s *Split) proxy(r road) *Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roads[r]
}

// Addr returns the address for clients of the member i, counted from 0.
func (s *Split) Addr(i int) string { return s.servers[i].Addr() }

// Leader returns which member leads. One that is cut off may take itself for it.
func (s *Split) Leader() (leader int) {
	s.tb.Helper()
	Eventually(s.tb, "a leader", func() bool {
		for i, srv := range s.servers {
			if says(srv.Addr(), leads) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// Stop kills the member i as a crash would.
func (s *Split) Stop(i int) { s.servers[i].Stop() }

// Restart starts the member i again, and returns once it serves clients.
func (s *Split) Restart(i int) { s.servers[i].Restart() }

// Isolate cuts the member i off from the others: connections between them stay
// open, new ones are made, and nothing passes until Heal.
func (s *Split) Isolate(i int) {
	for r, p := range s.roads {
		if r.from == i || r.to == i {
			p.Hold(true)
		}
	}
}

// Mute has the others hear nothing of the member i, while a leader still hears
// what they send, until Heal.
func (s *Split) Mute(i int) {
	for r, p := range s.roads {
		switch {
		case r.election && (r.from == i || r.to == i), r.from == i:
			p.Hold(true)
		case r.to == i:
			p.HoldReplies(true)
		}
	}
}

// Heal mends the network, as whose repair it delivers what was on its way, and
// returns once all members serve clients again.
func (s *Split) Heal() {
	s.tb.Helper()
	for _, p := range s.roads {
		p.Hold(false)
		p.HoldReplies(false)
	}
	for _, srv := range s.servers {
		Eventually(s.tb, srv.Addr()+" serves again", func() bool { return serves(srv.Addr()) })
	}
}
