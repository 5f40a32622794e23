package zktest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports handed out lie below the range that systems take the ports of
// outgoing connections from. Otherwise a client that dials a stopped server
// again and again is some day given the server's own port and connects to
// itself, and the server cannot come back.
const (
	lowestPort = 20000
	portCount  = 12000
)

var handedOut = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePort returns a loopback port that nobody listens on, never the same twice
// in one process.
func freePort() (int, error) {
	handedOut.Lock()
	defer handedOut.Unlock()
	for range 1000 {
		port := lowestPort + rand.IntN(portCount)
		if handedOut.ports[port] {
			continue
		}
		ln, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue // somebody else's
		}
		if err := ln.Close(); err != nil {
			return 0, err
		}
		handedOut.ports[port] = true
		return port, nil
	}
	return 0, errors.New("no free port on loopback")
}

// listen listens on a free loopback port.
func listen() (net.Listener, error) {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ln, err := net.Listen("tcp", loopback(port))
		if err == nil || try == 3 {
			return ln, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
