package zktest

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// Front ends TLS before a server that has none, and passes on what it finds inside. It
// returns its address, and ends with tb.
func Front(tb testing.TB, target string, cfg *tls.Config) (addr string) {
	tb.Helper()
	ln, err := listen()
	if err != nil {
		tb.Fatalf("zktest: front: %v", err)
	}
	f := &front{target: target, cfg: cfg, open: map[net.Conn]bool{}}
	f.wg.Go(func() { f.accept(ln) }) // ends with the listener
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
		f.wg.Go(func() { f.serve(c) }) // ends with the connection, which closeAll closes
	}
}

// keep notes a connection for closeAll, and reports whether it may live.
func (f *front) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[c] = true
	}
	return !f.closed
}

func (f *front) drop(c net.Conn) {
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
	defer f.drop(raw)
	if !f.keep(raw) {
		return
	}
	client := tls.Server(raw, f.cfg)
	if client.Handshake() != nil { // which has told the client
		return
	}
	server, err := net.Dial("tcp", f.target)
	if err != nil {
		return
	}
	defer f.drop(server)
	if !f.keep(server) {
		return
	}
	done := make(chan struct{})
	go func() { // ends with either connection
		defer close(done)
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close() // with TLS's own farewell
	<-done
}
