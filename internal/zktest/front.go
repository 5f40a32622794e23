package zktest

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// Front starts a proxy that accepts TLS connections, and forwards them without TLS to the server
// at the address target. It returns the address of the proxy, which ends with the test tb.
func Front(tb testing.TB, target string, cfg *tls.Config) (addr string) {
	tb.Helper()
	return peer(tb, func(raw net.Conn) {
		client := tls.Server(raw, cfg)
		if client.Handshake() != nil { // the handshake has already sent a TLS alert to the client
			return
		}
		if server, err := net.Dial("tcp", target); err == nil {
			join(client, server)
		}
	})
}

// join forwards data between two connections in both directions until one of them is closed. It then
// closes both.
func join(client, server net.Conn) {
	done := make(chan struct{})
	go func() { // ends when either connection is closed
		defer close(done)
		_, _ = io.Copy(server, client) // an error only means that a side closed its connection
		server.Close()
	}()
	_, _ = io.Copy(client, server) // as above
	_ = client.Close()             // over TLS, this sends an alert (close_notify)
	<-done
}
