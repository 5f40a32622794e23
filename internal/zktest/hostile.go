package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Silent starts a server that accepts connections but never sends any data. It returns the
// address.
func Silent(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(net.Conn) {})
}

// SSHBanner starts a server that greets clients like an SSH server, and returns its address. A
// ZooKeeper client that reads the greeting as a frame takes its first four bytes for a length of
// 1.3 GB.
func SSHBanner(tb testing.TB) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) { writeString(c, "SSH-2.0-OpenSSH_9.2\r\n") })
}

// HTTP starts a server that answers every request with the HTTP status 400 and closes the
// connection. It returns the address.
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

// peer starts a server that calls handle for each connection, and then closes the connection. It
// returns the address.
func peer(tb testing.TB, handle func(c net.Conn)) string {
	tb.Helper()
	return serve(tb, func(c net.Conn) {
		handle(c)
		_ = c.Close() // the client may have closed it already
	})
}

// Answering is like peer, but calls answer only once a connection has received something.
func Answering(tb testing.TB, answer func(c net.Conn)) string {
	tb.Helper()
	return peer(tb, func(c net.Conn) {
		if _, err := c.Read(make([]byte, 4096)); err == nil {
			answer(c)
		}
	})
}

// Refused returns an address that refuses connections, because no server listens there.
func Refused(tb testing.TB) string {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	return loopback(port)
}

// writeString sends text to a client. It ignores errors, because the client may have
// disconnected.
func writeString(c net.Conn, text string) { _, _ = io.WriteString(c, text) }

// serve starts a server that runs until the test tb ends, and returns its address. For each new
// connection, the server calls greet. It then discards everything that the client sends.
func serve(tb testing.TB, greet func(net.Conn)) string {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: %v", err)
	}
	var (
		wg       sync.WaitGroup
		conns    []net.Conn
		complete = make(chan struct{}) // closed when no more connections will be added to conns
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
