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

// The ports handed out lie below the range that systems take the ports of
// outgoing connections from. Otherwise a client that dials a stopped server
// again and again is some day given the server's own port and connects to
// itself, and the server cannot come back.
//
// They come in blocks. Each process with tests has its own: it listens on the first
// port of a block for as long as it lives. A port that was free a moment ago can so
// be taken only by programs that are no tests.
const (
	lowestPort = 20000
	blockSize  = 200
	blockCount = 60
)

// portBlocks are those of this process.
type portBlocks struct {
	sync.Mutex
	next, end int            // of the latest block: what has not been handed out
	marks     []net.Listener // what keeps others from the blocks
}

var ports portBlocks

// freePort returns a loopback port that nobody listens on, never the same twice
// in one process.
func freePort() (int, error) { return ports.free() }

func (b *portBlocks) free() (int, error) {
	b.Lock()
	defer b.Unlock()
	for {
		if b.next == b.end {
			if err := b.take(); err != nil {
				return 0, err
			}
		}
		port := b.next
		b.next++
		ln, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue // a stranger's
		}
		return port, ln.Close()
	}
}

// take makes one more block the process's own. Called with the lock held.
func (b *portBlocks) take() error {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		first := lowestPort + (start+i)%blockCount*blockSize
		mark, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue // another process's, or ours
		}
		b.marks = append(b.marks, mark)
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

// listenAgain listens where a listener was closed. A program that is being started has what
// this process has open until it has begun, and with it the port.
func listenAgain(addr string) (net.Listener, error) {
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		ln, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ln, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
