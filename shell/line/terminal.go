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

// A terminal reads typed keys from a terminal device, and sets its modes. In raw mode, every key
// arrives at once and unchanged.
type terminal struct {
	in, out      *os.File
	initialModes *tty.Modes // modes at the start of zksh, which are restored between lines

	wakeR, wakeW *os.File // ends of a pipe that contains one byte while woken is true
	woken        atomic.Bool

	mu     sync.Mutex // guards the fields below
	isRaw  bool
	closed bool // whether release has been called, so that raw fails
}

// Control sequences that turn bracketed paste on and off. While it is on, the terminal sends marks
// before and after pasted text.
const (
	pasteOn  = "\x1b[?2004h"
	pasteOff = "\x1b[?2004l"
)

func openTerminal(in, out *os.File) (*terminal, error) {
	t := &terminal{in: in, out: out}
	var err error
	if t.initialModes, err = tty.GetModes(in); err != nil {
		return nil, fmt.Errorf("cannot use the terminal: %w", err)
	}
	t.wakeR, t.wakeW, err = os.Pipe()
	return t, err
}

// raw puts the terminal into raw mode until restore is called. After release has been called, raw
// fails. Output processing stays on, so that other writers can end a line with only a newline.
func (t *terminal) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return os.ErrClosed
	case t.isRaw:
		return nil
	}
	modes := *t.initialModes // a program may have changed the current modes
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

// restore restores the initial modes. It may be called at any time from any goroutine. It returns
// no error if the terminal is gone.
func (t *terminal) restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isRaw {
		return nil
	}
	_, pasteErr := t.out.WriteString(pasteOff)
	err := tty.SetModes(t.in, t.initialModes)
	t.isRaw = false
	return errors.Join(tty.UnlessGone(pasteErr), err)
}

// release restores the initial modes, and makes later calls of raw fail. It restores the modes even
// if the terminal is not in raw mode, because a program may have changed them.
func (t *terminal) release() error {
	t.mu.Lock()
	t.closed = true
	wasRaw := t.isRaw
	t.mu.Unlock()
	if wasRaw {
		return t.restore()
	}
	return tty.PutBack(t.in, t.initialModes)
}

// close closes both ends of the pipe that wake and wait use.
func (t *terminal) close() error { return errors.Join(t.wakeR.Close(), t.wakeW.Close()) }

// wake makes the current call of wait return. If there is none, it makes the next call return at
// once.
func (t *terminal) wake() error {
	if t.woken.Swap(true) {
		return nil
	}
	_, err := t.wakeW.Write([]byte{0})
	return err
}

// wait waits for typed text and returns it. It returns an empty string after a call of wake or
// after the timeout; timedOut reports whether it was the timeout. timeout is in milliseconds; -1
// means no timeout. The error is ErrHungUp if the terminal is gone.
func (t *terminal) wait(timeout int) (typed string, timedOut bool, err error) {
	fds := []unix.PollFd{
		{Fd: int32(t.in.Fd()), Events: unix.POLLIN},
		{Fd: int32(t.wakeR.Fd()), Events: unix.POLLIN},
	}
	if n, err := unix.Poll(fds, timeout); err != nil || n == 0 {
		return "", err == nil, fatal(err)
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

// read reads the available text. If there is none, the terminal is gone, and read returns
// ErrHungUp.
func (t *terminal) read() (string, error) {
	b := make([]byte, 4096)
	n, err := unix.Read(int(t.in.Fd()), b)
	switch {
	case err != nil:
		return "", fatal(err)
	case n == 0:
		return "", ErrHungUp
	}
	return string(b[:n]), nil
}

// fatal returns err, the error of a system call, if the caller must give up. It returns nil if the
// caller should try again, and ErrHungUp if the terminal is gone.
func fatal(err error) error {
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case errors.Is(err, unix.EIO):
		return ErrHungUp
	}
	return err
}

// size returns the size of the terminal, or 80 by 24 if it is unknown, as on a serial line.
func (t *terminal) size() (columns, rows int) {
	if columns, rows = tty.Size(t.out); columns == 0 {
		return 80, 24
	}
	return columns, rows
}

// readTyped returns the text typed so far, without waiting. It ignores errors, because the next
// call of wait reports them.
func (t *terminal) readTyped() string {
	fds := []unix.PollFd{{Fd: int32(t.in.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 || fds[0].Revents&unix.POLLIN == 0 {
		return ""
	}
	typed, _ := t.read()
	return typed
}

// openFiles returns the set of open file descriptors that a child process would inherit.
func openFiles() map[int]bool {
	open := map[int]bool{}
	for fd := 3; fd < 256; fd++ { // a new descriptor gets the lowest free number, so higher ones are unlikely
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open[fd] = true
		}
	}
	return open
}

// closeOnExec prevents child processes from inheriting file descriptors. It applies to the
// descriptors that were opened after openFiles returned the set openBefore.
func closeOnExec(openBefore map[int]bool) {
	for fd := range openFiles() {
		if !openBefore[fd] {
			unix.CloseOnExec(fd)
		}
	}
}
