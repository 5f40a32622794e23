package zktest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The range of ports for tests is below the range of ephemeral ports, from which systems choose
// the local ports of outgoing connections. Otherwise, a client that repeatedly dials a stopped
// server could get the server's port as its local port and connect to itself, and the server
// could not listen again.
//
// The range is divided into blocks. Each test process reserves blocks for itself by listening on
// the first port of a block until the process exits. Hence, between a call of freePort and the
// use of the port, no other test can take the port; only an unrelated program can.
const (
	lowestPort = 20000
	blockSize  = 200
	blockCount = 60
)

// portBlocks holds the blocks of ports that this process has reserved.
type portBlocks struct {
	sync.Mutex
	next, end int            // unused ports of the latest block, from next to end-1
	listeners []net.Listener // listeners on the first ports of the blocks
}

var ports portBlocks

// freePort returns a port that is free on the loopback interface. Within one process, it never
// returns the same port twice.
func freePort() (int, error) { return ports.free() }

func (b *portBlocks) free() (int, error) {
	b.Lock()
	defer b.Unlock()
	for {
		if b.next == b.end {
			if err := b.reserve(); err != nil {
				return 0, err
			}
		}
		port := b.next
		b.next++
		ln, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue // the port is in use by a program that is not a test
		}
		return port, ln.Close()
	}
}

// reserve reserves one more block of ports for this process. The caller must hold b's lock.
func (b *portBlocks) reserve() error {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		first := lowestPort + (start+i)%blockCount*blockSize
		mark, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue // this process or another one has reserved the block
		}
		b.listeners = append(b.listeners, mark)
		b.next, b.end = first+1, first+blockSize
		return nil
	}
	return errors.New("found no free ports on the loopback interface")
}

// listen returns a listener on a free loopback port.
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

// listenAgain listens on the address of a listener that has been closed. It retries while the
// port is in use: until a child process that is being started calls exec, it has copies of all
// open files of this process, which may include the closed listener.
func listenAgain(addr string) (net.Listener, error) {
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		ln, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ln, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
