//go:build unix

package sandbox

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

const (
	idleSessions = 1000
	idleEvery    = 10 * time.Second
	idleServer   = "ZKSH_TEST_IDLE_SERVER" // its address, for TestIdleClients
)

// BenchmarkIdle is the share of a core that a server with 1,000 idle sessions
// takes, each with a ping every 10 s. The clients are another process.
func BenchmarkIdle(b *testing.B) {
	s := New(Options{})
	defer s.Close()
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestIdleClients$")
	cmd.Env = append(os.Environ(), idleServer+"="+addr.String())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = stdin.Close() // which ends it
		_ = cmd.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		b.Fatal(line, err)
	}
	for b.Loop() {
		start, used := time.Now(), cpu(b)
		time.Sleep(idleEvery / 2)
		b.ReportMetric(100*float64(cpu(b)-used)/float64(time.Since(start)), "%core")
	}
}

// TestIdleClients is what BenchmarkIdle starts. It ends with its input.
func TestIdleClients(t *testing.T) {
	addr := os.Getenv(idleServer)
	if addr == "" {
		t.Skip("for BenchmarkIdle only")
	}
	clients := make([]*rawzk.Conn, idleSessions)
	for i := range clients {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			defer nc.Close()
			clients[i], err = rawzk.Connect(nc, rawzk.Session{Timeout: 30000}, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if _, err := io.WriteString(os.Stdout, "ready\n"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(idleEvery / idleSessions)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ended:
			return
		}
		if _, err := clients[i%idleSessions].Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
