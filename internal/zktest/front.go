package zktest

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// Front starts a proxy that accepts TLS connections, and forwards them without TLS to the server
// at the address target. It returns the address of the proxy, which ends with the test tb.
func Front(tb testing.TB, target string, cfg *tls.Config) (addr string) {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: front: %v", err)
	}
	f := &front{target: target, cfg: cfg, open: map[net.Conn]bool{}}
	f.wg.Go(func() { f.accept(ln) }) // ends when ln is closed
	tb.Cleanup(func() {
		ln.Close()
		f.closeAll()
		f.wg.Wait()
	})
	return ln.Addr().String()
}

type front struct {
	target string
	cfg    *tls.Config
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
}

func (f *front) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.serve(c) }) // ends when closeAll closes c, or earlier
	}
}

// track registers a connection that closeAll must close. It returns false if closeAll has already
// been called.
func (f *front) track(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[c] = true
	}
	return !f.closed
}

func (f *front) untrack(c net.Conn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

func (f *front) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.open {
		c.Close()
	}
}

func (f *front) serve(raw net.Conn) {
	defer f.untrack(raw)
	if !f.track(raw) {
		return
	}
	client := tls.Server(raw, f.cfg)
	if client.Handshake() != nil { // the handshake has already sent a TLS alert to the client
		return
	}
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer f.untrack(server)
	if !f.track(server) {
		return
	}
	done := make(chan struct{})
	go func() { // ends when either connection is closed
		defer close(done)
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close() // sends a TLS alert (close_notify)
	<-done
}
