package zktest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A Split is an ensemble whose members are connected to each other only through proxies. A test
// can interrupt the network between the members while their clients stay connected.
type Split struct {
	tb      testing.TB
	servers []*Server

	mu     sync.Mutex // guards routes until all members have started; afterwards, routes does not change
	routes map[route]*Proxy
}

// A route is a connection that one member of the ensemble may open to the quorum port or the
// election port of another member. Members are numbered from 0.
type route struct {
	from, to int
	election bool
}

// StartSplit starts an ensemble of three servers with ZooKeeper's usual ticks, and returns once
// all of them serve clients. Like a server that Start starts, they end with the test.
func StartSplit(tb testing.TB, opts ...Option) *Split {
	tb.Helper()
	s := &Split{tb: tb, routes: map[route]*Proxy{}}
	c := newConfig(append([]Option{Ticks(2000, 10, 5)}, opts...))
	c.quorum, c.members, c.view = true, 3, s.viaProxies
	// If reconfiguration were enabled, all members would use the same list of addresses, and
	// would bypass the proxies.
	c.lines = append(c.lines, "reconfigEnabled=false")
	s.servers = startMembers(tb, c)
	return s
}

// viaProxies starts the proxies through which member self connects to member other. It returns
// a copy of other that has the ports of these proxies.
func (s *Split) viaProxies(self, other member) member {
	from, to := self.id-1, other.id-1
	other.quorum = s.startRoute(route{from, to, false}, other.quorum, func([]byte) {})
	// Of two members, the one with the larger number opens the connection for elections. The
	// other one only asks for it by sending its own address. The proxy replaces this address
	// with the address of the proxy in the other direction. Both have the same length, because
	// all ports have five digits.
	own := []byte(loopback(self.election))
	other.election = s.startRoute(route{from, to, true}, other.election, func(sent []byte) {
		if i := bytes.Index(sent, own); i >= 0 {
			copy(sent[i:], s.proxy(route{to, from, true}).Addr())
		}
	})
	return other
}

// startRoute starts a proxy for a route to the given port, and returns the port on which the
// proxy listens.
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

// Addr returns the client address of member i, counted from 0.
func (s *Split) Addr(i int) string { return s.servers[i].Addr() }

// Leader returns the number of the member that reports that it is the leader. A leader that has
// just been isolated may still report this.
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

// Stop kills member i, as in a crash.
func (s *Split) Stop(i int) { s.servers[i].Stop() }

// Restart starts member i again, and returns once it serves clients.
func (s *Split) Restart(i int) { s.servers[i].Restart() }

// Isolate separates member i from the others. Connections between them stay open, and new ones
// can be opened, but no data pass until Heal is called.
func (s *Split) Isolate(i int) {
	for r, p := range s.routes {
		if r.from == i || r.to == i {
			p.Hold(true)
		}
	}
}

// Mute blocks the data that member i sends to the others, and its election traffic in both
// directions, until Heal is called. If member i is the leader, it still receives the data of its
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

// Heal restores the network between the members and delivers the data that were held back. It
// returns once all members serve clients again.
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
