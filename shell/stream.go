package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/tty"
)

// stream prints an answer while the command produces it. It locks the screen only during each
// write, so that events and errors can be printed between the lines of the answer.
func (s *screen) stream(v *render.Stream) error {
	s.streaming.Store(true)
	defer s.streaming.Store(false)
	to := &lineWriter{s: s, wholeLines: s.printer.Format != render.JSON}
	if s.pager == nil {
		return errors.Join(s.printer.To(to).Print(v), to.close())
	}
	paged := &pagedText{s: s, to: to}
	err := s.printer.To(paged).Print(v)
	if errors.Is(err, errPagerClosed) {
		err = nil
	}
	if err = errors.Join(err, paged.close(), to.close()); err != nil {
		return err
	}
	return paged.failed
}

// lineWriter is a writer to standard output that locks the screen only during each write.
type lineWriter struct {
	s          *screen
	wholeLines bool   // whether to write only complete lines; false for JSON, which is written at once
	rest       []byte // incomplete last line, which has not been written yet
}

// Write writes the complete lines in p. It holds back an incomplete line until the next call of
// Write or close.
func (l *lineWriter) Write(p []byte) (int, error) {
	end := len(p)
	if l.wholeLines {
		end = bytes.LastIndexByte(p, '\n') + 1
	}
	if end > 0 {
		if err := l.write(append(l.rest, p[:end]...)); err != nil {
			return 0, err
		}
		l.rest = nil
	}
	l.rest = append(l.rest, p[end:]...)
	return len(p), nil
}

func (l *lineWriter) write(p []byte) error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	defer l.s.hideRegions(l.s.out)()
	_, err := l.s.out.W.Write(p)
	return err
}

// close writes the incomplete last line, if there is one.
func (l *lineWriter) close() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.write(l.rest)
}

// errPagerClosed is the error that stops a stream after the user has left the pager.
var errPagerClosed = errors.New("the pager was closed")

// pagedText is a writer for a streamed text. It buffers the text as long as that fits on the
// screen. When the text no longer fits, pagedText starts the pager, which then holds the screen
// until the user leaves it.
type pagedText struct {
	s      *screen
	to     *lineWriter // receives the text if it fits on the screen or the pager cannot be run
	head   []byte      // beginning of the text, saved until the pager must have begun to read
	pipe   *os.File    // standard input of the pager; nil while no pager runs
	ended  chan error  // receives the error of the pager
	failed error       // error that occurred if the pager could not be run, or nil

	takeBack func() // takes the terminal back from the pager
}

// pipeSize is a number of bytes that is larger than the buffer of a pipe on any system. Once that
// many bytes have been written to the pipe, the pager must have begun to read.
const pipeSize = 1 << 20

// Write adds p to the text, and passes it to the pager if one is running.
func (t *pagedText) Write(p []byte) (int, error) {
	if t.failed != nil {
		return t.to.Write(p)
	}
	if t.pipe == nil || len(t.head) < pipeSize {
		t.head = append(t.head, p...)
	}
	if t.pipe != nil {
		return t.writeToPager(p)
	}
	if t.s.pager.fits(t.head) {
		return len(p), nil
	}
	if err := t.start(); err != nil {
		return 0, err
	}
	if _, err := t.writeToPager(t.head); err != nil {
		return 0, err
	}
	return len(p), nil
}

// start starts the pager, and locks the screen until finish is called.
func (t *pagedText) start() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	t.pipe, t.ended = w, make(chan error, 1)
	t.s.mu.Lock() // finish unlocks it
	t.s.erase()
	t.takeBack = t.s.lendToPager()
	go func() { // ends when the pager has terminated, which finish waits for
		err := t.s.pager.read(r)
		r.Close()
		t.ended <- err
	}()
	return nil
}

// writeToPager writes p to the pager. A failed write means that the user has left the pager, or
// that the pager could not be run.
func (t *pagedText) writeToPager(p []byte) (int, error) {
	if n, err := t.pipe.Write(p); err == nil {
		return n, nil
	}
	if err := t.finish(); err != nil {
		return 0, err
	}
	if t.failed == nil {
		return 0, errPagerClosed
	}
	return len(p), nil
}

// finish waits until the pager has terminated, and unlocks the screen. If the pager could not be
// run, finish prints the text.
func (t *pagedText) finish() error {
	t.pipe.Close()
	err := <-t.ended
	t.pipe = nil
	t.takeBack()
	_ = t.s.redraw() // ignore the error, because the next Draw reports a failed write
	t.s.mu.Unlock()
	if errors.As(err, new(noPagerError)) {
		t.failed = err
		_, err = t.to.Write(t.head)
	}
	t.head = nil
	return err
}

// close ends the text. It prints the buffered text, or waits until the user leaves the pager.
func (t *pagedText) close() error {
	if t.pipe != nil {
		return t.finish()
	}
	_, err := t.to.Write(t.head)
	return err
}

// A pager shows text that is longer than the screen by running a program such as less. Nothing
// else may use the terminal while that program runs.
type pager struct {
	command string
	size    func() (columns, rows int)
	ctx     context.Context // context of the shell; when it is done, the pager is terminated
}

// newPager returns a pager that runs the given command line, or nil if that is empty or standard
// output is not a terminal.
func (s *Shell) newPager(ctx context.Context, command string) *pager {
	if command == "" || !s.cfg.Out.TTY || s.cfg.Out.Size == nil {
		return nil
	}
	return &pager{command: command, size: s.cfg.Out.Size, ctx: ctx}
}

// fits reports whether text fits on the screen.
func (p *pager) fits(text []byte) bool {
	columns, rows := p.size()
	if columns == 0 || rows == 0 { // the size of the screen is unknown
		return true
	}
	used := 0
	for line := range bytes.Lines(text) {
		if used += 1 + (len(line)-1)/columns; used >= rows {
			return false
		}
	}
	return true
}

// show shows text in the pager until the user leaves it, and restores the modes of the terminal.
// It returns a noPagerError if the pager could not be run, and ignores other failures of the
// pager.
func (p *pager) show(text []byte) error {
	return p.read(bytes.NewReader(text))
}

// read is like show, for text that is still being produced.
func (p *pager) read(text io.Reader) error {
	cmd := exec.CommandContext(p.ctx, "sh", "-c", p.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = text, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return tty.EndJob(cmd.Process) }
	cmd.WaitDelay = time.Second
	putBack := tty.KeepModes(os.Stdout)
	err := pagerFailure(cmd.Run())
	return errors.Join(err, putBack())
}

// pagerFailure returns a noPagerError if the pager could not be run. It ignores all other errors,
// such as the pager's exit status, text that the pager did not read, or a cancelled context at the
// end of the shell.
func pagerFailure(err error) error {
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case ended && exit.ExitCode() != commands.StatusUnknown && exit.ExitCode() != commands.StatusCannotRun:
		return nil
	case err == nil, peer.Unread(err), errors.Is(err, exec.ErrWaitDelay), errors.Is(err, context.Canceled):
		return nil
	}
	return noPagerError{err}
}

// noPagerError reports that the pager could not be run.
type noPagerError struct{ err error }

func (e noPagerError) Error() string { return "cannot run the pager: " + e.err.Error() }

// Unwrap returns the cause.
func (e noPagerError) Unwrap() error { return e.err }
