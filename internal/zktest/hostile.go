package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Silent returns the address of a peer that accepts and never says anything.
func Silent(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(net.Conn) {})
}

// SSHBanner returns the address of a peer that greets as an SSH server does.
// Read as a frame's length, its first four bytes ask for 1.3 GB.
func SSHBanner(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) { say(c, "SSH-2.0-OpenSSH_9.2\r\n") })
}

// HTTP returns the address of a peer that answers anything with HTTP status 400
// and closes.
func HTTP(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return
		}
		say(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite() // the client may have left already
	})
}

// Refused returns an address where nobody listens.
func Refused(tb testing.TB) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	return loopback(port)
}

// say writes to a client that may have left already, which is no matter.
func say(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

// serve accepts connections until tb ends, does greet on each, and then reads
// whatever comes until the client closes.
func serve(tb testing.TB, greet func(net.Conn)) string {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	var (
		wg       sync.WaitGroup
		conns    []net.Conn
		complete = make(chan struct{}) // closed when conns grows no more
	)
	tb.Cleanup(func() {
		_ = ln.Close()
		<-complete
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	})
	go func() {
		defer close(complete)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			wg.Go(func() {
				defer c.Close()
				greet(c)
				_, _ = io.Copy(io.Discard, c) // until either side closes
			})
		}
	}()
	return ln.Addr().String()
}
