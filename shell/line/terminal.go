//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package line

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// terminal is the keyboard and the modes of a terminal. In raw mode every key
// arrives at once and as it is.
type terminal struct {
	in, out *os.File
	start   *tty.Modes // the modes found at the start, in force between lines

	wakeR, wakeW *os.File // a byte is in this pipe while woken
	woken        atomic.Bool

	mu     sync.Mutex
	isRaw  bool
	closed bool // given back for good
}

// Bracketed paste: the terminal puts marks around what is pasted.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

func openTerminal(in, out *os.File) (*terminal, error) {
	t := &terminal{in: in, out: out}
	var err error
	if t.start, err = tty.GetModes(in); err != nil {
		return nil, fmt.Errorf("cannot use the terminal: %w", err)
	}
	t.wakeR, t.wakeW, err = os.Pipe()
	return t, err
}

// raw takes over the terminal, until restore; after giveBack it fails. Output is
// still processed, so that a newline begins a line for whoever else writes.
func (t *terminal) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return os.ErrClosed
	case t.isRaw:
		return nil
	}
	modes := *t.start // a program may have left others
	modes.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	modes.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN | unix.ISIG | unix.ECHONL
	modes.Cflag = modes.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	if err := tty.SetModes(t.in, &modes); err != nil {
		return err
	}
	t.isRaw = true
	_, err := t.out.WriteString(pasteOn)
	return err
}

// restore gives the terminal back as it was found. It may be called at any time
// from any goroutine. A terminal that is gone has nothing to restore.
func (t *terminal) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isRaw {
		return nil
	}
	_, pasteErr := t.out.WriteString(pasteOff)
	err := tty.SetModes(t.in, t.start)
	t.isRaw = false
	return errors.Join(tty.UnlessGone(pasteErr), err)
}

// giveBack is restore for good. Modes that a program has left go, too.
func (t *terminal) giveBack() error {
	t.mu.Lock()
	t.closed = true
	wasRaw := t.isRaw
	t.mu.Unlock()
	if wasRaw {
		return t.restore()
	}
	return tty.PutBack(t.in, t.start)
}

// close frees the pipe.
func (t *terminal) close() error { return errors.Join(t.wakeR.Close(), t.wakeW.Close()) }

// wake ends a wait.
func (t *terminal) wake() error {
	if t.woken.Swap(true) {
		return nil
	}
	_, err := t.wakeW.Write([]byte{0})
	return err
}

// wait returns what was typed, or nothing once it was woken or, late, after the
// timeout in milliseconds; -1 is none. The error is ErrHungUp when the terminal is gone.
func (t *terminal) wait(timeout int) (typed string, late bool, err error) {
	fds := []unix.PollFd{
		{Fd: int32(t.in.Fd()), Events: unix.POLLIN},
		{Fd: int32(t.wakeR.Fd()), Events: unix.POLLIN},
	}
	if n, err := unix.Poll(fds, timeout); err != nil || n == 0 {
		return "", err == nil, again(err)
	}
	if fds[1].Revents != 0 {
		var b [1]byte
		if _, err := t.wakeR.Read(b[:]); err != nil {
			return "", false, err
		}
		t.woken.Store(false)
	}
	if fds[0].Revents == 0 {
		return "", false, nil
	}
	typed, err = t.read()
	return typed, false, err
}

// read reads what poll has seen. Nothing at all is the end.
func (t *terminal) read() (string, error) {
	b := make([]byte, 4096)
	n, err := unix.Read(int(t.in.Fd()), b)
	switch {
	case err != nil:
		return "", again(err)
	case n == 0:
		return "", ErrHungUp
	}
	return string(b[:n]), nil
}

// again passes over what only means to try once more.
func again(err error) error {
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case errors.Is(err, unix.EIO):
		return ErrHungUp
	}
	return err
}

// size is the terminal's in columns and rows. One that does not know its size,
// such as a serial line, counts as 80 by 24.
func (t *terminal) size() (columns, rows int) {
	if columns, rows = tty.Size(t.out); columns == 0 {
		return 80, 24
	}
	return columns, rows
}

// ready reads what was typed by now, without waiting: the end of the terminal shows
// at the next wait.
func (t *terminal) ready() string {
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 || fds[0].Revents&unix.POLLIN == 0 {
		return ""
	}
	typed, _ := t.read()
	return typed
}

// openFiles are the descriptors that programs would inherit.
func openFiles() map[int]bool {
	open := map[int]bool{}
	for fd := 3; fd < 256; fd++ { // the lowest free ones are used first
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open[fd] = true
		}
	}
	return open
}

// closeOnExec keeps from programs what was opened since.
func closeOnExec(before map[int]bool) {
	for fd := range openFiles() {
		if !before[fd] {
			unix.CloseOnExec(fd)
		}
	}
}
