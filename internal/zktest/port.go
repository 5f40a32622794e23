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

// Ports for tests are below the range of ephemeral ports, which the system uses for outgoing
// connections. Otherwise, a client that repeatedly dials a stopped server might get the server's
// port as its own local port. It would then connect to itself, and the server could not listen
// again.
//
// The ports are divided into blocks. A test process reserves a block by listening on its first port
// until the process exits. Therefore no other test can take a port between the call of freePort and
// the use of the port. Only an unrelated program can do that.
const (
	lowestPort = 20000
	blockSize  = 200
	blockCount = 60
)

// portBlocks contains the blocks of ports that this process has reserved.
type portBlocks struct {
	sync.Mutex
	// The unused ports of the latest block are those from next to end-1.
	next, end int
	listeners []net.Listener // listeners on the first port of each block
}

var ports portBlocks

// freePort returns a port on which no program listens on the loopback interface. It never returns
// the same port twice in one process.
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
			continue // a program that is not a test uses the port
		}
		return port, ln.Close()
	}
}

// reserve reserves another block of ports for this process. The caller must hold b's lock.
func (b *portBlocks) reserve() error {
	start := rand.IntN(blockCount)
	for i := range blockCount {
		first := lowestPort + (start+i)%blockCount*blockSize
		mark, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue // this or another process has already reserved the block
		}
		b.listeners = append(b.listeners, mark)
		b.next, b.end = first+1, first+blockSize
		return nil
	}
	return errors.New("found no free ports on the loopback interface")
}

// listen returns a listener on a free port of the loopback interface.
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

// listenAgain listens on the address of a listener that was just closed, and retries while the
// address is in use. This can happen because a child process has copies of this process's open
// files until it calls exec. The copies may include the closed listener.
func listenAgain(addr string) (net.Listener, error) {
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		ln, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return ln, err
		}
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
