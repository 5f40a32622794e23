package sandbox

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

var serveAddr = flag.String("serve", "", "serve a sandbox on this address until interrupted, for trying other clients on it")

// TestServe is no test: with -serve it lets kazoo, zkCli.sh or Curator at a
// sandbox.
func TestServe(t *testing.T) {
	if *serveAddr == "" {
		t.Skip("needs -serve")
	}
	s := New(Options{Logf: t.Logf})
	defer s.Close()
	addr, err := s.Listen(*serveAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("serving on %v", addr)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
