//go:build unix && !aix && !solaris

package child

import (
	"encoding/binary"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A record is a message between zksh and the keeper. Both are processes of the same executable, so its form can
// be that of the machine.
type record struct {
	Kind    kind
	Number  int32 // signal, error number or wait status
	Time    int64 // end of the lease, or time for SIGKILL, on the clock of now
	Grace   int64 // of orderStart: maximum time between SIGTERM and SIGKILL, in nanoseconds
	Overdue bool  // of reportDone: the keeper terminated the program, because the lease was about to end
	Escaped bool  // of reportDone: some processes could not be killed
}

// A kind says what a record means.
type kind int32

const (
	orderStart     kind = iota + 1 // start the program; the lease ends at Time
	orderLease                     // the lease ends at Time
	orderSignal                    // send the signal Number to the program's group
	orderTerminate                 // send SIGTERM now, and SIGKILL at Time or after Grace

	reportReady   // the keeper waits for orderStart
	reportStarted // the program runs
	reportFailed  // the program could not be started, because of the error Number
	reportRefused // a signal could not be sent to the program, because of the error Number
	reportStopped // the signal Number has stopped the program
	reportEnded   // the program has ended with the wait status Number, and has left other processes
	reportKilling // the keeper has begun to kill all processes
	reportDone    // nothing is left that the keeper could kill; the program has the wait status Number
)

// A link is one end of the connection between zksh and the keeper.
type link struct{ file *os.File }

// newLink returns both ends of a connection. The end of the keeper is a file descriptor that the next process
// inherits. Its number is one that no redirection of a shell uses.
func newLink() (ours link, theirs int, err error) {
	syscall.ForkLock.RLock() // no other process may inherit both ends
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return link{}, 0, err
	}
	defer syscall.Close(pair[1])
	syscall.CloseOnExec(pair[0])
	syscall.CloseOnExec(pair[1])
	if theirs, err = unix.FcntlInt(uintptr(pair[1]), unix.F_DUPFD, firstKeeperFile); err != nil {
		syscall.Close(pair[0])
		return link{}, 0, err
	}
	return link{os.NewFile(uintptr(pair[0]), "keeper")}, theirs, nil
}

// firstKeeperFile is the smallest file descriptor for the keeper's end of its link.
const firstKeeperFile = 10

// send sends a record. It does not block: there is room for hundreds of records that a stopped process has not
// read. It ignores errors: receive notices that the other process has ended.
func (l link) send(r record) {
	text, err := binary.Append(nil, binary.NativeEndian, r)
	if err != nil {
		panic(err) // a record has a fixed size
	}
	_ = syscall.Sendto(int(l.file.Fd()), text, syscall.MSG_DONTWAIT, nil)
}

// receive returns a channel with the records from the other process. It is closed when that process has ended,
// or after close. The caller must receive all records, because the goroutine ends only then.
func (l link) receive() <-chan record {
	out := make(chan record)
	go func() {
		defer close(out)
		text := make([]byte, binary.Size(record{}))
		for {
			var r record
			if _, err := io.ReadFull(l.file, text); err != nil {
				return
			}
			if _, err := binary.Decode(text, binary.NativeEndian, &r); err != nil {
				panic(err) // a record has a fixed size
			}
			out <- r
		}
	}()
	return out
}

// close ends the connection, and waits until the goroutine of receive has ended.
func (l link) close(received <-chan record) {
	_ = syscall.Shutdown(int(l.file.Fd()), syscall.SHUT_RDWR) // fails if the other process has ended
	for range received {
	}
	l.file.Close()
}
