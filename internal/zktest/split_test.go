package zktest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// Servers of a Split meet through its proxies alone, whoever calls whom, and a
// member that is cut off stops serving until the network is mended.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := StartSplit(t, Heap(64), Ticks(500, 10, 2))
	s.wantNoDetour()
	leader := s.Leader()
	for i := range 3 {
		s.Isolate(i)
		// One that only takes its time to answer may serve yet.
		Eventually(t, "nobody serves alone", func() bool {
			answer, err := FourLetter(s.Addr(i), "srvr", Patience)
			return err == nil && answer != "" && !strings.Contains(answer, "\nMode: ")
		})
		next, last := s.Addr((i+1)%3), s.Addr((i+2)%3)
		Eventually(t, "the others go on", func() bool { return serves(next) && serves(last) })
		if serves(s.Addr(i)) {
			t.Errorf("member %d, led by %d, serves without the others", i, leader)
		}
		s.Heal()
		s.wantNoDetour()
		leader = s.Leader()
	}
}

// wantNoDetour wants no connection to a server's ports for its like but those of
// the proxies, but one that just begins, of which the proxy does not know yet.
func (s *Split) wantNoDetour() {
	s.tb.Helper()
	Eventually(s.tb, "no connection around the proxies", func() bool { return s.detour() == "" })
}

// detour is what wantNoDetour does not want.
func (s *Split) detour() string {
	s.tb.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		s.tb.Skip(err)
	}
	ours, theirs := map[string]bool{}, map[string]bool{}
	for _, p := range s.roads {
		addr, err := net.ResolveTCPAddr("tcp", p.target)
		if err != nil {
			s.tb.Fatal(err)
		}
		theirs[inTable(addr)] = true
		p.mu.Lock()
		for l := range p.links {
			l.mu.Lock()
			if l.server != nil {
				ours[inTable(l.server.LocalAddr().(*net.TCPAddr))] = true
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
	if seen < 4 { // two of followers to the leader, and two or more for elections
		return fmt.Sprintf("%d connections between the members", seen)
	}
	return ""
}

// inTable is how the kernel writes an address of loopback in /proc/net/tcp.
func inTable(a *net.TCPAddr) string { return fmt.Sprintf("0100007F:%04X", a.Port) }
