package shell

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/line"
)

// Output is one of the two streams a shell writes to.
type Output struct {
	W    io.Writer
	TTY  bool                       // it is a terminal
	Size func() (columns, rows int) // of the terminal; nil or zeros: not known
}

// size is that of the terminal; one that does not know its size counts as 80 by 24.
func (o *Output) size() (columns, rows int) {
	if o.Size != nil {
		columns, rows = o.Size()
	}
	if columns == 0 {
		return 80, 24
	}
	return columns, rows
}

// screen is the only writer of standard output and standard error. Each of its
// writes is whole, so that answers, events, errors and regions never run into each
// other.
type screen struct {
	mu       sync.Mutex
	out, err Output
	printer  render.Printer
	editor   line.Editor // nil unless by hand: it knows the line being typed
	pager    *pager      // nil unless by hand, by the person's wish
	paging   atomic.Bool
	regions  []*region // on the terminal, from top to bottom
}

// answer prints a value on standard output. Without its pager it is an answer all
// the same.
func (s *screen) answer(v render.Value) error {
	err := s.printOrPage(v)
	if failed := (noPagerError{}); errors.As(err, &failed) {
		s.complain(failed.Error())
		return nil
	}
	return err
}

func (s *screen) printOrPage(v render.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	defer s.restore() // what fails here the next Draw tells
	if s.pager == nil {
		return s.printer.Print(v)
	}
	var b bytes.Buffer
	if err := s.printer.To(&b).Print(v); err != nil {
		return err
	}
	if s.pager.fits(b.Bytes()) {
		_, err := s.out.W.Write(b.Bytes())
		return err
	}
	return s.page(b.Bytes())
}

// page shows a text with the pager, and without it if that cannot be run. Called
// with mu held.
func (s *screen) page(text []byte) error {
	s.paging.Store(true)
	defer s.paging.Store(false)
	err := s.pager.show(text)
	if failed := (noPagerError{}); errors.As(err, &failed) {
		if _, err := s.out.W.Write(text); err != nil {
			return err
		}
	}
	return err
}

// event prints a value that nobody waits for, above the line being typed.
func (s *screen) event(v render.Value) error {
	var b bytes.Buffer
	if err := s.printer.To(&b).Print(v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	defer s.restore() // what fails here the next Draw tells
	if s.editor != nil {
		return s.editor.Notify(b.String())
	}
	_, err := s.out.W.Write(b.Bytes())
	return err
}

// refresh has the editor show the prompt as it is now.
func (s *screen) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.editor != nil {
		s.editor.Refresh()
	}
}

// complain prints a line on standard error. Nothing is left to do when that fails.
func (s *screen) complain(text string) {
	start := ""
	if rest, fresh := strings.CutPrefix(text, "\n"); fresh { // on a line of its own
		start, text = "\n", rest
	}
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "; ")
	if s.err.TTY {
		text = render.Safe(text)
	}
	text = start + text
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	defer s.restore() // what fails here the next Draw tells
	if s.editor != nil && s.err.TTY {
		_ = s.editor.Notify(text + "\n")
		return
	}
	_, _ = io.WriteString(s.err.W, text+"\n")
}
