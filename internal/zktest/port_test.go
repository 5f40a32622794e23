package zktest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Test processes that run in parallel never get the same port, even if they do not listen on
// it yet.
func TestPortsDifferBetweenProcesses(t *testing.T) {
	processes := make([]portBlocks, 3)
	given := make([][]int, len(processes))
	var asking sync.WaitGroup
	for i := range processes {
		t.Cleanup(func() {
			for _, mark := range processes[i].listeners {
				_ = mark.Close() // no other goroutine uses it
			}
		})
		asking.Go(func() {
			for range blockSize + 10 {
				port, err := processes[i].free()
				if err != nil {
					t.Error(err)
					return
				}
				given[i] = append(given[i], port)
			}
		})
	}
	asking.Wait()
	seen := map[int]bool{}
	for _, ports := range given {
		for _, port := range ports {
			if seen[port] {
				t.Errorf("port %d was given twice", port)
			}
			seen[port] = true
		}
	}
}

// free skips a port on which another program listens.
func TestPortInUseIsSkipped(t *testing.T) {
	var b portBlocks
	first, err := b.free()
	Must(t, err)
	defer b.listeners[0].Close()
	stranger, err := net.Listen("tcp", loopback(first+1))
	if err != nil {
		t.Skipf("another stranger was quicker: %v", err)
	}
	defer stranger.Close()
	if next, err := b.free(); err != nil || next <= first+1 {
		t.Errorf("port %d, %v, behind %d", next, err, first+1)
	}
}

// listenAgain succeeds although a copy of the closed listener holds the port for a moment.
func TestListenAgain(t *testing.T) {
	ln, err := listen()
	Must(t, err)
	held, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Skip(err) // Windows does not support it
	}
	Must(t, ln.Close())
	if again, err := net.Listen("tcp", ln.Addr().String()); err == nil {
		_ = again.Close()
		t.Error("the port is free at once: nothing is proven")
	}
	released := make(chan error)
	time.AfterFunc(20*time.Millisecond, func() { released <- held.Close() })
	again, err := listenAgain(ln.Addr().String())
	Must(t, err)
	Check(t, errors.Join(again.Close(), <-released))
}
