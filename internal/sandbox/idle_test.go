//go:build unix

package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

const (
	idleSessions = 1000
	idleEvery    = 10 * time.Second
	idleServer   = "ZKSH_TEST_IDLE_SERVER" // variable with the server's address, for idleClients
)

// BenchmarkIdle measures the share of a core that a server with 1,000 idle sessions uses,
// each with a ping every 10 s. The clients run in another process. The benchmark "bare"
// shows the minimum for a server in Go: it only reads and writes.
func BenchmarkIdle(b *testing.B) {
	b.Run("sandbox", func(b *testing.B) {
		s := New(Options{})
		defer s.Close()
		addr, err := s.Listen("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		measureIdle(b, addr.String())
	})
	b.Run("bare", func(b *testing.B) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer ln.Close()
		go serveBare(ln) // ends with ln
		measureIdle(b, ln.Addr().String())
	})
}

// measureIdle measures the CPU time of this process while the clients ping it.
func measureIdle(b *testing.B, addr string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), idleServer+"="+addr)
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
		_ = stdin.Close() // makes the clients exit
		_ = cmd.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		b.Fatal(line, err)
	}
	start, used := time.Now(), cpu(b)
	for b.Loop() {
		time.Sleep(idleEvery / 2)
	}
	b.ReportMetric(100*float64(cpu(b)-used)/float64(time.Since(start)), "%core")
}

// serveBare answers the first frame of each connection with a session, and all others
// with the reply to a ping.
func serveBare(ln net.Listener) {
	session := &jute.Encoder{B: make([]byte, 4)}
	session.Int(0)
	session.Int(30000)
	session.Long(1)
	session.Buffer(make([]byte, 16))
	session.Bool(false)
	hello, pong := finish(session), finish(frame(-2, 0, codeOK))
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() { // ends when the client disconnects
			defer nc.Close()
			buf := make([]byte, 2048)
			for answer := hello; ; answer = pong {
				if _, err := nc.Read(buf); err != nil {
					return
				}
				if _, err := nc.Write(answer); err != nil {
					return
				}
			}
		}()
	}
}

// TestMain runs the tests, or, in the process that BenchmarkIdle starts, the clients.
func TestMain(m *testing.M) {
	addr := os.Getenv(idleServer)
	if addr == "" {
		m.Run()
		return
	}
	if err := idleClients(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// idleClients opens the sessions and pings the server until its standard input ends.
func idleClients(addr string) error {
	clients := make([]*rawzk.Conn, idleSessions)
	for i := range clients {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			defer nc.Close()
			clients[i], err = rawzk.Connect(nc, rawzk.Session{Timeout: 30000}, 0)
		}
		if err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	go func() { // ends at the end of standard input
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	if _, err := io.WriteString(os.Stdout, "ready\n"); err != nil {
		return err
	}
	tick := time.NewTicker(idleEvery / idleSessions)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ended:
			return nil
		}
		if _, err := clients[i%idleSessions].Flush(); err != nil {
			return err
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
