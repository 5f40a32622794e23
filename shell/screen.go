package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/internal/render"
)

// screen is the only writer of standard output and standard error. Each of its
// writes is whole, so that answers, events, errors and the progress line never
// run into each other.
type screen struct {
	mu      sync.Mutex
	out     io.Writer
	err     io.Writer
	printer render.Printer
	errTTY  bool
	width   func() int // of the terminal in columns
	meters  bool       // show progress
	editor  Editor     // nil unless by hand: it knows the line being typed
	pager   *pager     // nil unless by hand, by the person's wish
	paging  atomic.Bool
	drawn   bool       // a progress or live line is on the terminal
	live    string     // the live line; empty: none
	rows    func() int // of the terminal
	block   []string   // lines of standard output that are redrawn in place
	blocked int        // how many of them are on the terminal
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
	if s.pager == nil {
		return s.printer.Print(v)
	}
	var b bytes.Buffer
	if err := s.printer.To(&b).Print(v); err != nil {
		return err
	}
	if s.pager.fits(b.Bytes()) {
		_, err := s.out.Write(b.Bytes())
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
		if _, err := s.out.Write(text); err != nil {
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
	defer s.drawLive()
	if s.editor != nil {
		return s.editor.Notify(b.String())
	}
	_, err := s.out.Write(b.Bytes())
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
	if s.errTTY {
		text = render.Safe(text)
	}
	text = start + text
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	defer s.drawLive()
	if s.editor != nil && s.errTTY {
		_ = s.editor.Notify(text + "\n")
		return
	}
	_, _ = io.WriteString(s.err, text+"\n")
}

// erase takes away what is drawn anew: the progress line, the block. Called with
// mu held.
func (s *screen) erase() {
	if s.blocked > 0 {
		_, _ = fmt.Fprintf(s.out, "\r\x1b[%dA\x1b[J", s.blocked)
		s.blocked = 0
	}
	if s.drawn {
		_, _ = io.WriteString(s.err, "\r\x1b[K")
		s.drawn = false
	}
}

// showLive puts one line on the terminal in the place of the one before, and
// takes it away when the text is empty; it tells whether there is one. The line is
// cut to the window, since one that wraps cannot be taken back.
func (s *screen) showLive(text string) bool {
	if !s.errTTY {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = text
	s.erase()
	s.drawLive()
	return true
}

// window is the size of the terminal that standard output is; zeros where it is
// none, or where answers are for a program all the same.
func (s *screen) window() (columns, rows int) {
	if !s.printer.Safe || s.printer.Format == render.JSON {
		return 0, 0
	}
	return s.width(), s.rows()
}

// redraw puts a block of lines in the place of the one before; nil leaves that
// one for good. Lines are cut to the window, and so is the block: what has
// scrolled out cannot be taken back.
func (s *screen) redraw(lines []string) error {
	columns, rows := s.window()
	if columns == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if lines == nil {
		s.block, s.blocked = nil, 0
		return nil
	}
	if s.drawn {
		s.erase()
	}
	s.block = nil
	for _, l := range lines[:min(len(lines), max(rows-1, 1))] {
		s.block = append(s.block, render.Cut(render.Safe(l), columns-1))
	}
	return s.drawBlock()
}

// drawBlock is called with mu held.
func (s *screen) drawBlock() error {
	if len(s.block) == 0 {
		return nil
	}
	text := strings.Join(s.block, "\n") + "\n"
	if s.blocked > 0 { // line by line: a screen that is cleared first flickers, and some keep a copy of it
		text = fmt.Sprintf("\r\x1b[%dA", s.blocked) + strings.Join(s.block, "\x1b[K\n") + "\x1b[K\n\x1b[J"
	}
	s.blocked = len(s.block)
	_, err := io.WriteString(s.out, text)
	return wrapWrite(err)
}

// liveMargin is left free behind a live line, for what the terminal echoes there.
const liveMargin = 4

// drawLive puts back what erase took. Called with mu held.
func (s *screen) drawLive() {
	_ = s.drawBlock() // the next redraw tells
	if s.live != "" {
		_, _ = io.WriteString(s.err, render.Cut(render.Safe(s.live), s.width()-liveMargin))
		s.drawn = true
	}
}

// When progress is shown, and how often it is drawn anew.
const (
	meterAfter = 500 * time.Millisecond
	meterEvery = 100 * time.Millisecond
)

// meter shows the progress of a piece of work in one line that is rewritten in
// place, once the work has taken long enough.
func (s *screen) meter(verb string) (update func(done, total int), end func()) {
	if !s.meters {
		return func(int, int) {}, func() {}
	}
	start := time.Now()
	next := start.Add(meterAfter)
	update = func(done, total int) {
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(meterEvery)
		text := progressLine(verb, done, total, now.Sub(start))
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(s.err, "\r\x1b[K"+text)
		s.drawn = true
	}
	return update, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.erase()
	}
}

func progressLine(verb string, done, total int, took time.Duration) string {
	rate := float64(done) / took.Seconds()
	return fmt.Sprintf("%s %d of %d (%d %%), %.0f/s", verb, done, total, 100*done/max(total, 1), rate)
}
