package zktest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A Split is an ensemble whose members are connected to each other only through proxies. A test
// can interrupt the network between members, while clients stay connected to them.
type Split struct {
	tb      testing.TB
	servers []*Server

	// mu guards routes until all members have started. Afterwards, routes does not change.
	mu     sync.Mutex
	routes map[route]*Proxy
}

// A route leads from one member of the ensemble to the quorum port or the election port of another.
// Members are numbered from 0.
type route struct {
	from, to int
	election bool
}

// StartSplit starts an ensemble of three servers with ZooKeeper's default ticks. It returns once
// all of them serve clients. Like Start, it kills the servers when the test ends.
func StartSplit(tb testing.TB, opts ...Option) *Split {
	tb.Helper()
	s := &Split{tb: tb, routes: map[route]*Proxy{}}
	c := newConfig(append([]Option{Ticks(2000, 10, 5)}, opts...))
	c.quorum, c.members, c.view = true, 3, s.viaProxies
	// With reconfiguration enabled, all members would use the same list of addresses, and would
	// bypass the proxies.
	c.lines = append(c.lines, "reconfigEnabled=false")
	s.servers = startMembers(tb, c)
	return s
}

// viaProxies starts the proxies by which the member self reaches the member other. It returns a
// copy of other with the ports of these proxies.
func (s *Split) viaProxies(self, other member) member {
	from, to := self.id-1, other.id-1
	other.quorum = s.startRoute(route{from, to, false}, other.quorum, func([]byte) {})
	// Of any two members, only the one with the larger id opens the connection for elections.
	// The other one sends its own address, and asks for a connection to that address. Replace
	// the address with that of the proxy from other to self. Otherwise, the connection would
	// bypass the proxies. Both addresses have the same length, because all ports have five
	// digits.
	own := []byte(loopback(self.election))
	other.election = s.startRoute(route{from, to, true}, other.election, func(sent []byte) {
		if i := bytes.Index(sent, own); i >= 0 {
			copy(sent[i:], s.proxy(route{to, from, true}).Addr())
		}
	})
	return other
}

// startRoute starts a proxy in front of the given port, for the route r. It returns the port on
// which the proxy listens.
func (s *Split) startRoute(r route, port int, stream func(sent []byte)) int {
	p := startProxy(s.tb, &Proxy{target: loopback(port), stream: stream})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[r] = p
	return p.listener.Addr().(*net.TCPAddr).Port
}

func (s *Split) proxy(r route) *Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes[r]
}

// Addr returns the address at which clients reach member i. Members are numbered from 0.
func (s *Split) Addr(i int) string { return s.servers[i].Addr() }

// Leader returns the number of the member that currently claims to be the leader. Just after the
// leader has been isolated, this may still be the old leader.
func (s *Split) Leader() (leader int) {
	s.tb.Helper()
	Eventually(s.tb, "a leader", func() bool {
		for i, srv := range s.servers {
			if srvrContains(srv.Addr(), leaderMode) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// Stop kills member i, as if it had crashed.
func (s *Split) Stop(i int) { s.servers[i].Stop() }

// Restart starts member i again, and returns once it serves clients.
func (s *Split) Restart(i int) { s.servers[i].Restart() }

// Isolate blocks all data between member i and the other members until Heal is called.
// Connections between them stay open, and new ones can be opened.
func (s *Split) Isolate(i int) {
	for r, p := range s.routes {
		if r.from == i || r.to == i {
			p.Hold(true)
		}
	}
}

// Mute blocks the data that member i sends to other members, and its election traffic in both
// directions, until Heal is called. If member i is the leader, it still receives data from its
// followers.
func (s *Split) Mute(i int) {
	for r, p := range s.routes {
		switch {
		case r.election && (r.from == i || r.to == i), r.from == i:
			p.Hold(true)
		case r.to == i:
			p.HoldReplies(true)
		}
	}
}

// Heal restores the network between the members, and delivers the data that was held back. It
// returns once all members serve clients.
func (s *Split) Heal() {
	s.tb.Helper()
	for _, p := range s.routes {
		p.Hold(false)
		p.HoldReplies(false)
	}
	for _, srv := range s.servers {
		Eventually(s.tb, srv.Addr()+" serves again", func() bool { return serves(srv.Addr()) })
	}
}
