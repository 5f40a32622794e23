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
	Start  *program       `json:",omitempty"` // the program to start
	Signal syscall.Signal `json:",omitempty"` // signal to send to the program's group
	Until  *instant       `json:",omitempty"` // new end of the lease
	End    *instant       `json:",omitempty"` // send SIGTERM now, and SIGKILL at this time
}

// A program describes the program that the keeper runs. That program inherits the keeper's
// environment and standard files.
type program struct {
	Path  string
	Argv  []string
	Grace time.Duration
	Until *instant // end of the lease; nil if there is no limit
}

// A report is a message from the keeper to zksh. Exactly one of the fields is set, except that
// Cgroup can be set together with Pid.
type report struct {
	Pid     int            `json:",omitempty"` // process id of the started program
	Failed  *failure       `json:",omitempty"` // why the program could not be started
	Stopped syscall.Signal `json:",omitempty"` // signal that stopped the program
	Alert   string         `json:",omitempty"` // message to show to the user
	Ended   *ending        `json:",omitempty"` // how the program has ended

	Cgroup string `json:",omitempty"` // directory of the program's control group, or empty if there is none; set with Pid
}

// An ending describes how a program has ended.
type ending struct {
	Status  syscall.WaitStatus
	Overdue bool // whether it was terminated without an order, because the lease was about to end
	Escaped bool // whether a process could not be killed in time
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

// An instant is a moment in a form that can be sent to another process. It consists of the time
// left until the moment, and the moment by the wall clock. With the wall clock, the receiver can
// subtract the time that the message was in transit.
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

// writeTimeout is the maximum time to wait for free space in the pipe. A pipe has room for
// hundreds of messages, so no message has to wait if the other process reads them.
const writeTimeout = 50 * time.Millisecond

// write sends a message. It sets a write deadline only when the pipe is full. A deadline that is
// set earlier could pass before the write begins, if this process is suspended in between or the
// machine is busy.
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

// readMessages decodes the messages in file, and sends them on the channel that it returns. At
// the end of the file, it closes the file and the channel. The caller must receive all messages,
// because the goroutine that decodes them ends only then.
func readMessages[T any](file *os.File) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		defer file.Close()
		for d := json.NewDecoder(file); ; {
			var v T
			if d.Decode(&v) != nil {
				return // the other process has closed the pipe
			}
			out <- v
		}
	}()
	return out
}
