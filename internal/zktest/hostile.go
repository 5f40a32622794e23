package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Silent returns the address of a server that accepts connections but never sends any data.
func Silent(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(net.Conn) {})
}

// SSHBanner returns the address of a server that sends the greeting of an SSH server. The first
// four bytes of the greeting, interpreted as the length of a frame, mean 1.3 GB.
func SSHBanner(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) { writeString(c, "SSH-2.0-OpenSSH_9.2\r\n") })
}

// HTTP returns the address of a server that answers any request with HTTP status 400 and
// closes the connection.
func HTTP(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err != nil {
			return
		}
		writeString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite() // fails only if the client has disconnected
	})
}

// Refused returns an address where no server listens.
func Refused(tb testing.TB) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	return loopback(port)
}

// writeString writes a text to a client. It ignores errors, because the client may already have
// disconnected.
func writeString(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

// serve starts a server that accepts connections until the test tb ends, and returns its address.
// For each connection, the server calls greet. Then it reads and discards data until the client
// closes the connection.
func serve(tb testing.TB, greet func(net.Conn)) string {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	var (
		wg       sync.WaitGroup
		conns    []net.Conn
		complete = make(chan struct{}) // closed once no connection will be added to conns
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
				_, _ = io.Copy(io.Discard, c) // ends when either side closes the connection
			})
		}
	}()
	return ln.Addr().String()
}
