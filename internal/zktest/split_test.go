package zktest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// The members of a Split connect to each other only through its proxies, and an isolated
// member stops serving clients until Heal.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := StartSplit(t, Heap(64), Ticks(500, 10, 2))
	s.wantOnlyProxies()
	leader := s.Leader()
	for i := range 3 {
		s.Isolate(i)
		// A member that has not answered at all may still be serving.
		Eventually(t, "nobody serves alone", func() bool {
			answer, err := fourLetter(s.Addr(i), "srvr", Patience)
			return err == nil && answer != "" && !strings.Contains(answer, "\nMode: ")
		})
		next, last := s.Addr((i+1)%3), s.Addr((i+2)%3)
		Eventually(t, "the others go on", func() bool { return serves(next) && serves(last) })
		if serves(s.Addr(i)) {
			t.Errorf("member %d, led by %d, serves without the others", i, leader)
		}
		s.Heal()
		s.wantOnlyProxies()
		leader = s.Leader()
	}
}

// wantOnlyProxies waits until all connections to the members' quorum and election ports
// come from the proxies. It waits because a proxy may have just opened a connection that
// it has not recorded yet.
func (s *Split) wantOnlyProxies() {
	s.tb.Helper()
	Eventually(s.tb, "no connection around the proxies", func() bool { return s.directConnection() == "" })
}

// directConnection returns a description of a connection that bypasses the proxies, or ""
// if there is none.
func (s *Split) directConnection() string {
	s.tb.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		s.tb.Skip(err)
	}
	ours, theirs := map[string]bool{}, map[string]bool{}
	for _, p := range s.routes {
		addr, err := net.ResolveTCPAddr("tcp", p.target)
		Must(s.tb, err)
		theirs[procNetAddr(addr)] = true
		p.mu.Lock()
		for l := range p.links {
			l.mu.Lock()
			if l.server != nil {
				ours[procNetAddr(l.server.LocalAddr().(*net.TCPAddr))] = true
			}
			l.mu.Unlock()
		}
		p.mu.Unlock()
	}
	seen := 0
	for line := range strings.Lines(string(table)) {
		const established = "01"
		if f := strings.Fields(line); f[3] == established && theirs[f[2]] {
			seen++
			if !ours[f[1]] {
				return "a connection around the proxies: " + line
			}
		}
	}
	if seen < 4 { // two from followers to the leader, and at least two for elections
		return fmt.Sprintf("%d connections between the members", seen)
	}
	return ""
}

// procNetAddr formats a loopback address as in /proc/net/tcp.
func procNetAddr(a *net.TCPAddr) string { return fmt.Sprintf("0100007F:%04X", a.Port) }
