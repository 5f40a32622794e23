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

// stream prints an answer as it comes. The screen is only held while something is
// written: what else there is to show comes between its lines.
func (s *screen) stream(v *render.Stream) error {
	s.flowing.Store(true)
	defer s.flowing.Store(false)
	to := &lines{s: s, whole: s.printer.Format != render.JSON}
	if s.pager == nil {
		return errors.Join(s.printer.To(to).Print(v), to.close())
	}
	paged := &pagedText{s: s, to: to}
	err := s.printer.To(paged).Print(v)
	if errors.Is(err, errPagerLeft) {
		err = nil
	}
	if err = errors.Join(err, paged.close(), to.close()); err != nil {
		return err
	}
	return paged.failed
}

// lines writes to standard output: whole lines, or all as it comes.
type lines struct {
	s     *screen
	whole bool
	rest  []byte // the start of a line
}

// Write may hold back the start of a line until the next Write, or close.
func (l *lines) Write(p []byte) (int, error) {
	end := len(p)
	if l.whole {
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

func (l *lines) write(p []byte) error {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	defer l.s.makeWay(l.s.out)()
	_, err := l.s.out.W.Write(p)
	return err
}

// close writes what was held back.
func (l *lines) close() error {
	if len(l.rest) == 0 {
		return nil
	}
	return l.write(l.rest)
}

// errPagerLeft says that the person has seen enough.
var errPagerLeft = errors.New("the pager was closed")

// pagedText is a text that is still coming. Once it does not fit on the screen the
// pager shows it, which then has the screen until it is left.
type pagedText struct {
	s      *screen
	to     *lines // for what fits, and for all if there is no pager
	head   []byte // the start of the text, until it is surely being read
	pipe   *os.File
	ended  chan error // of the pager
	failed error      // it cannot be run
}

// pipeSize is more than a system keeps of what is written and not read.
const pipeSize = 1 << 20

// Write is part of io.Writer.
func (t *pagedText) Write(p []byte) (int, error) {
	if t.failed != nil {
		return t.to.Write(p)
	}
	if t.pipe == nil || len(t.head) < pipeSize {
		t.head = append(t.head, p...)
	}
	if t.pipe != nil {
		return t.pass(p)
	}
	if t.s.pager.fits(t.head) {
		return len(p), nil
	}
	if err := t.start(); err != nil {
		return 0, err
	}
	if _, err := t.pass(t.head); err != nil {
		return 0, err
	}
	return len(p), nil
}

// start runs the pager, until it is left.
func (t *pagedText) start() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	t.pipe, t.ended = w, make(chan error, 1)
	t.s.mu.Lock() // until finish
	t.s.erase()
	t.s.paging.Store(true)
	go func() { // ends with the pager, which ends with the text or before; finish waits for it
		err := t.s.pager.read(r)
		r.Close()
		t.ended <- err
	}()
	return nil
}

// pass gives the pager more. When it does not take it, it has been left, or could not
// be run.
func (t *pagedText) pass(p []byte) (int, error) {
	if n, err := t.pipe.Write(p); err == nil {
		return n, nil
	}
	if err := t.finish(); err != nil {
		return 0, err
	}
	if t.failed == nil {
		return 0, errPagerLeft
	}
	return len(p), nil
}

// finish waits for the pager's end. The text goes to the screen if the pager could not
// be run.
func (t *pagedText) finish() error {
	t.pipe.Close()
	err := <-t.ended
	t.pipe = nil
	t.s.paging.Store(false)
	_ = t.s.redraw() // what fails here the next Draw tells
	t.s.mu.Unlock()
	if errors.As(err, new(noPagerError)) {
		t.failed = err
		_, err = t.to.Write(t.head)
	}
	t.head = nil
	return err
}

// close shows what is left when the text has come to its end, or waits until it has
// been read.
func (t *pagedText) close() error {
	if t.pipe != nil {
		return t.finish()
	}
	_, err := t.to.Write(t.head)
	return err
}

// pager shows what is longer than the screen, with the program that the person
// has set. It has the terminal to itself meanwhile.
type pager struct {
	command string
	size    func() (columns, rows int)
	ctx     context.Context // of the shell: SIGTERM ends the pager too
}

// newPager returns the pager that a command line starts, or nil if there is none or no terminal.
func (s *Shell) newPager(ctx context.Context, command string) *pager {
	if command == "" || !s.cfg.Out.TTY || s.cfg.Out.Size == nil {
		return nil
	}
	return &pager{command: command, size: s.cfg.Out.Size, ctx: ctx}
}

// fits reports whether text can be read without a pager. Only the start of a long
// text is looked at.
func (p *pager) fits(text []byte) bool {
	columns, rows := p.size()
	if columns == 0 || rows == 0 { // nobody knows
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

// show runs the pager until the person leaves it, and gives the terminal back as
// it was. A noPagerError says that nothing was shown; whether a pager was pleased
// with its end does not matter.
func (p *pager) show(text []byte) error {
	return p.read(bytes.NewReader(text))
}

// read is show for a text that is still coming.
func (p *pager) read(text io.Reader) error {
	cmd := exec.CommandContext(p.ctx, "sh", "-c", p.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = text, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return tty.EndJob(cmd.Process) }
	cmd.WaitDelay = time.Second
	putBack := tty.KeepModes(os.Stdout)
	err := pagerFailure(cmd.Run())
	return errors.Join(err, putBack())
}

// pagerFailure leaves of what a pager has come to what matters.
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

// noPagerError says that the pager could not be run.
type noPagerError struct{ err error }

func (e noPagerError) Error() string { return "cannot run the pager: " + e.err.Error() }

// Unwrap gives the cause.
func (e noPagerError) Unwrap() error { return e.err }
