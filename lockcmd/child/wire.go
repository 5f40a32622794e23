//go:build unix && !aix && !solaris

package child

import (
	"cmp"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"
)

// An order is a message from zksh to the keeper. Exactly one of the fields is set.
type order struct {
	Start  *program       `json:",omitempty"`
	Signal syscall.Signal `json:",omitempty"` // signal to send to the program's group
	Until  *instant       `json:",omitempty"` // new end of the lease
	End    *instant       `json:",omitempty"` // send TERM now, and KILL at this time
}

// program describes the program that the keeper runs. The program inherits the keeper's
// environment and standard files.
type program struct {
	Path      string
	Argv      []string
	Grace     time.Duration
	WaitGroup bool
	Until     *instant // end of the lease; nil if there is no limit
}

// A report is a message from the keeper to zksh. Exactly one of the fields is set, except
// that Cgroup accompanies Pid.
type report struct {
	Pid     int            `json:",omitempty"` // the program was started
	Failed  *failure       `json:",omitempty"` // the program could not be started
	Stopped syscall.Signal `json:",omitempty"` // the program was stopped by this signal
	Alert   string         `json:",omitempty"` // message for the user
	Ended   *ending        `json:",omitempty"` // the program has ended

	Cgroup string `json:",omitempty"` // with Pid: directory of the control group; empty if there is none
}

// ending describes how a program has ended.
type ending struct {
	Status  syscall.WaitStatus
	Overdue bool // terminated without an order, because the lease was about to end
	Escaped bool // a process could not be killed in time
	Left    int  // number of processes of its group that still run; -1 if it is unknown
}

// A failure is an error in a form that keeps its error number (errno) when it is sent to
// another process.
type failure struct {
	Number syscall.Errno
	Text   string
}

func (f *failure) err() error {
	if f.Number != 0 {
		return f.Number
	}
	return textError(f.Text)
}

type textError string

func (e textError) Error() string { return string(e) }

// An instant is a moment in a form that can be sent to another process. It consists of the
// time left until the moment and the moment by the wall clock, which makes up for the time
// that the message was in transit.
type instant struct {
	Left time.Duration
	Wall time.Time
}

func instantOf(m moment) *instant { return &instant{m.left(now()), m.wall} }

func (i *instant) moment() moment {
	n := now()
	return moment{monotonic: n.monotonic.Add(i.Left), wall: i.Wall}
}

// A messageWriter writes orders or reports to a pipe. It must not block if the receiving
// process is stopped.
type messageWriter struct {
	mu   sync.Mutex
	file *os.File
}

// writeTimeout is the longest wait for room in the pipe. A pipe has room for hundreds of
// messages, so no message waits while the other side reads.
const writeTimeout = 50 * time.Millisecond

// write sends a message. It sets the deadline only when the pipe is full: a deadline set
// earlier might pass before the write if this process is suspended in between, or runs on a
// busy machine.
func (m *messageWriter) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, err := m.file.SyscallConn()
	if err == nil {
		err = m.file.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		return err
	}
	var failed error
	waits := false
	err = raw.Write(func(fd uintptr) (over bool) {
		n, err := syscall.Write(int(fd), text)
		text = text[max(n, 0):]
		switch {
		case err != nil && err != syscall.EAGAIN && err != syscall.EINTR:
			failed = err
		case len(text) > 0 && !waits:
			waits = true
			failed = m.file.SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		return len(text) == 0 || failed != nil
	})
	return cmp.Or(err, failed)
}

// readMessages decodes the messages in file, and sends them on the channel that it returns.
// At the end of the file, it closes the file and the channel. The caller must receive all
// messages, because the decoding goroutine ends only then.
func readMessages[T any](file *os.File) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		defer file.Close()
		for d := json.NewDecoder(file); ; {
			var v T
			if d.Decode(&v) != nil {
				return // the other side has closed the pipe
			}
			out <- v
		}
	}()
	return out
}
