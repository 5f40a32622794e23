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

// order is what zksh tells the keeper; one of the fields is set.
type order struct {
	Start  *program       `json:",omitempty"`
	Signal syscall.Signal `json:",omitempty"` // for the group
	Until  *instant       `json:",omitempty"` // the lease is good until then
	End    *instant       `json:",omitempty"` // TERM now, and KILL then
}

// program is what the keeper is to run. Its environment and its files are the
// keeper's own.
type program struct {
	Path      string
	Argv      []string
	Grace     time.Duration
	WaitGroup bool
	Until     *instant // nil: there is no lease
}

// report is what the keeper tells zksh; one of the first fields is set.
type report struct {
	Pid     int            `json:",omitempty"` // it was started
	Failed  *failure       `json:",omitempty"` // it was not
	Stopped syscall.Signal `json:",omitempty"`
	Alert   string         `json:",omitempty"`
	Ended   *ending        `json:",omitempty"`

	Cgroup string `json:",omitempty"` // with Pid: the control group it is in
}

// ending is how it ended.
type ending struct {
	Status  syscall.WaitStatus
	Overdue bool // for the lease was about to end, and nobody had ordered it
	Escaped bool // something could not be ended in time
	Left    int  // processes of its group that go on
}

// failure is an error that keeps its number on the way.
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

// instant is a moment on its way to another process: what is left of it, and the
// wall clock, which tells how long it was under way.
type instant struct {
	Left time.Duration
	Wall time.Time
}

func instantOf(m moment) *instant { return &instant{m.left(now()), m.wall} }

func (i *instant) moment() moment {
	n := now()
	return moment{monotonic: n.monotonic.Add(i.Left), wall: i.Wall}
}

// mouth writes orders or reports. One who does not listen, since it was stopped,
// must not make the other wait.
type messageWriter struct {
	mu   sync.Mutex
	file *os.File
}

// unheard is how long a message may wait for room. There is room for hundreds of
// them in a pipe, so that none waits while somebody listens.
const writeTimeout = 50 * time.Millisecond

// say writes a message. The deadline begins when there is no room: one that is set
// before may be over before the write if we stand still in between, on a busy
// machine or stopped.
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

// listenTo gives the messages that a file holds, and closes it and the channel at
// its end. Its goroutine ends with that, for which all messages must be taken.
func readMessages[T any](file *os.File) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		defer file.Close()
		for d := json.NewDecoder(file); ; {
			var v T
			if d.Decode(&v) != nil {
				return // the other side is gone
			}
			out <- v
		}
	}()
	return out
}
