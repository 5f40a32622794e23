//go:build unix && !aix && !solaris

package child

import (
	"encoding/binary"
	"os"
	"syscall"
)

// A record is a message between zksh and the keeper. Both are processes of the same executable, so its form can
// be that of the machine.
type record struct {
	Kind   kind
	Number int64 // signal, error number, wait status or grace time
	Time   int64 // end of the lease, or time for SIGKILL, on the clock of now
}

// A kind says what a record means.
type kind int32

const (
	orderStart     kind = iota + 1 // start the program; the lease ends at Time, and the grace time is Number
	orderLease                     // the lease ends at Time
	orderSignal                    // send the signal Number to the program's group
	orderTerminate                 // send SIGTERM now, and SIGKILL at Time or after the grace time

	reportReady   // the keeper waits for orderStart
	reportStarted // the program runs
	reportFailed  // last report: the program could not be started, because of the error Number
	reportRefused // a signal could not be sent to the program, because of the error Number
	reportStopped // the signal Number has stopped the program
	reportOverdue // the keeper terminates the program without an order, because the lease is about to end
	reportEnded   // the program has ended with the wait status Number
	reportKilling // the keeper has begun to kill all processes
	reportDone    // last report: nothing is left
	reportEscaped // last report: some processes could not be killed
)

// A link is one end of the connection between zksh and the keeper.
type link struct{ file *os.File }

// newLink returns both ends of a connection. The end of the keeper is a file descriptor that the next process
// inherits.
func newLink() (ours link, theirs int, err error) {
	syscall.ForkLock.RLock() // no other process may inherit our end
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return link{}, 0, err
	}
	syscall.CloseOnExec(pair[0])
	return link{os.NewFile(uintptr(pair[0]), "keeper")}, pair[1], nil
}

// send sends a record. It does not block: there is room for hundreds of records that a stopped process has not
// read. It ignores errors: receive notices that the other process has ended.
func (l link) send(r record) {
	text, _ := binary.Append(nil, binary.NativeEndian, r) // cannot fail: a record has a fixed size
	_ = syscall.Sendto(int(l.file.Fd()), text, syscall.MSG_DONTWAIT, nil)
}

// receive returns a channel with the records from the other process. It is closed when that process has ended,
// or after close. The caller must receive all records, because the goroutine ends only then.
func (l link) receive() <-chan record {
	out := make(chan record)
	go func() {
		defer close(out)
		var r record
		for binary.Read(l.file, binary.NativeEndian, &r) == nil {
			out <- r
		}
	}()
	return out
}

// shutdown ends the connection. Records that have arrived can still be received.
func (l link) shutdown() {
	_ = syscall.Shutdown(int(l.file.Fd()), syscall.SHUT_RDWR) // fails if the other process has ended
}

// close ends the connection, and waits until the goroutine of receive has ended.
func (l link) close(received <-chan record) {
	l.shutdown()
	for range received {
	}
	l.file.Close()
}
