package zktest

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A Split is an ensemble whose members connect to one another through proxies only. The
// network between them can be broken while their clients stay connected.
type Split struct {
	tb      testing.TB
	servers []*Server

	mu     sync.Mutex // guards routes until all are started; then routes no longer changes
	routes map[route]*Proxy
}

// A route is a connection that one member, numbered from 0, may open to another: to its
// quorum port or its election port.
type route struct {
	from, to int
	election bool
}

// StartSplit starts an ensemble of three servers with ZooKeeper's usual ticks, and returns
// once all of them serve clients. They end like a server of Start.
func StartSplit(tb testing.TB, opts ...Option) *Split {
	tb.Helper()
	s := &Split{tb: tb, routes: map[route]*Proxy{}}
	c := newConfig(append([]Option{Ticks(2000, 10, 5)}, opts...))
	c.quorum, c.members, c.view = true, 3, s.viaProxies
	// With reconfiguration, all members would use one list of addresses, which bypasses the
	// proxies.
	c.lines = append(c.lines, "reconfigEnabled=false")
	s.servers = startMembers(tb, c)
	return s
}

// viaProxies starts the proxies from member self to member other. It returns other with
// the ports of these proxies.
func (s *Split) viaProxies(self, other member) member {
	from, to := self.id-1, other.id-1
	other.quorum = s.startRoute(route{from, to, false}, other.quorum, func([]byte) {})
	// Of two members, the one with the larger number opens the connection for elections. The
	// other one only asks for it, and sends the address to connect to, which must be that
	// of a proxy too. The text has the same length, because our ports have five digits.
	own := []byte(loopback(self.election))
	other.election = s.startRoute(route{from, to, true}, other.election, func(sent []byte) {
		if i := bytes.Index(sent, own); i >= 0 {
			copy(sent[i:], s.proxy(route{to, from, true}).Addr())
		}
	})
	return other
}

// startRoute starts the proxy for a route to a port, and returns the port of the proxy.
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

// Leader returns the number of the member that reports to be the leader. A member that has
// just been isolated may still report it.
func (s *Split) Leader() (leader int) {
	s.tb.Helper()
	Eventually(s.tb, "a leader", func() bool {
		for i, srv := range s.servers {
			if answersWith(srv.Addr(), leaderMode) {
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

// Isolate separates member i from the others. Connections between them stay open and new
// ones can be opened, but no data pass until Heal.
func (s *Split) Isolate(i int) {
	for r, p := range s.routes {
		if r.from == i || r.to == i {
			p.Hold(true)
		}
	}
}

// Mute blocks all data from member i to the others, and its election traffic, until Heal.
// If member i is the leader, it still receives what its followers send.
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

// Heal repairs the network and delivers the held data. It returns once all members serve
// clients again.
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
