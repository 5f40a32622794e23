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

// The ports are below the range of ephemeral ports, which systems use for outgoing
// connections. Otherwise a client that dials a stopped server again and again would at some
// time get the server's own port as its local port and connect to itself, and the server
// could not listen again.
//
// The ports are divided into blocks. Each test process reserves blocks for itself: it
// listens on the first port of a block until it exits. So only programs that are not tests
// can take a port between freePort and its use.
const (
	lowestPort = 20000
	blockSize  = 200
	blockCount = 60
)

// portBlocks holds the blocks that a process has reserved.
type portBlocks struct {
	sync.Mutex
	next, end int            // unused ports of the latest block
	listeners []net.Listener // listeners that reserve the blocks
}

var ports portBlocks

// freePort returns a free loopback port. It never returns the same port twice in one
// process.
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
			continue // taken by a program that is not a test
		}
		return port, ln.Close()
	}
}

// reserve reserves one more block for the process. It must be called with the lock held.
func (b *portBlocks) reserve() error {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		first := lowestPort + (start+i)%blockCount*blockSize
		mark, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue // reserved by this process or another one
		}
		b.listeners = append(b.listeners, mark)
		b.next, b.end = first+1, first+blockSize
		return nil
	}
	return errors.New("found no free ports on the loopback interface")
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

// listenAgain listens on the address of a closed listener. It retries while the port is in
// use: a child process that is being started has copies of this process's open files,
// including the listener, until it calls exec.
func listenAgain(addr string) (net.Listener, error) {
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		ln, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ln, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
