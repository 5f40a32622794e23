//go:build unix

package sandbox

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

// BenchmarkIdle is the share of a core that 1,000 idle sessions take, each
// with a ping every 10 s, the clients' part included.
func BenchmarkIdle(b *testing.B) {
	const sessions, every = 1000, 10 * time.Second
	s := New(Options{})
	defer s.Close()
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	clients := make([]*rawzk.Conn, sessions)
	for i := range clients {
		nc, err := net.Dial("tcp", addr.String())
		clients[i] = benchClient(b, nc, err)
	}
	for b.Loop() {
		start, used := time.Now(), cpu(b)
		tick := time.NewTicker(every / sessions)
		for _, c := range clients[:sessions/2] {
			<-tick.C
			if _, err := c.Flush(); err != nil {
				b.Fatal(err)
			}
		}
		tick.Stop()
		b.ReportMetric(100*float64(cpu(b)-used)/float64(time.Since(start)), "%core")
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
