package shell

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// A region is a commands.Region of a screen: lines on the terminal that can be redrawn. A region
// on standard output is a block, which ends its last line with a newline. A region on standard
// error leaves the cursor at the end of its text.
type region struct {
	s     *screen
	to    *Output
	block bool // whether the region is on standard output
	// number of columns left free on the right, because a full row may wrap and keys may be echoed
	// there
	margin int
	lines  []string // lines to draw, cut to the width of the window; guarded by s.mu
}

var _ commands.Region = (*region)(nil)

// A picture describes the lines that all regions together currently occupy on the terminal.
type picture struct {
	to    io.Writer
	lines int  // number of lines, or 0 if nothing is drawn
	block bool // whether the cursor is below the last line instead of at its end
}

// region returns a new region. It appears on the terminal at its first Draw.
func (s *screen) region(on commands.Stream) *region {
	if on == commands.Answers {
		return &region{s: s, to: &s.out, block: true, margin: 1}
	}
	return &region{s: s, to: &s.err, margin: 4}
}

// Size returns the size of the terminal, or 0, 0 if the region cannot be drawn.
func (r *region) Size() (columns, rows int) {
	if !r.to.TTY || r.to.Dumb || r.block && r.s.printer.Format == render.JSON {
		return 0, 0
	}
	return r.to.size()
}

// Draw replaces the lines of the region. It escapes control characters, and cuts the lines to the
// size of the window.
func (r *region) Draw(lines ...string) error {
	painted := make([]render.Line, len(lines))
	for i, l := range lines {
		painted[i] = render.PlainLine(l)
	}
	return r.Paint(painted...)
}

// Paint is like Draw, for lines with colors.
func (r *region) Paint(lines ...render.Line) error {
	columns, rows := r.Size()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if columns == 0 || r.s.muted {
		return nil
	}
	r.lines = nil
	for _, l := range lines[:min(len(lines), max(rows-1, 1))] {
		r.lines = append(r.lines, l.Terminal(columns-r.margin, !r.to.Plain))
	}
	if !slices.Contains(r.s.regions, r) {
		r.s.regions = append(r.s.regions, r)
	}
	return r.s.redraw()
}

// Close ends the region. If keep is true, its lines stay on the terminal, above all other regions.
func (r *region) Close(keep bool) error {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.regions, r)
	if at < 0 {
		return nil
	}
	s.regions = slices.Delete(s.regions, at, at+1)
	if !keep {
		return s.redraw()
	}
	if at > 0 || !s.picture.block {
		s.erase()
		_, err := io.WriteString(r.to.W, strings.Join(r.lines, "\n")+"\n")
		if err != nil {
			return err
		}
		return s.redraw()
	}
	s.picture.lines = max(0, s.picture.lines-len(r.lines))
	s.echo.setHidden(len(s.regions) > 0)
	return nil
}

// top returns the control sequence that moves the cursor from the end of the picture to its
// beginning.
func (p *picture) top() string {
	up := p.lines
	if !p.block {
		up--
	}
	if up == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", up)
}

// Control sequences around the output that replaces a picture (DEC private mode 2026). Terminals
// that know them show all of it at once, so that nothing flickers. Others ignore them.
const beginUpdate, endUpdate = "\x1b[?2026h", "\x1b[?2026l"

// redraw draws the current lines of all regions over the old ones. It overwrites line by line,
// because clearing first would make the screen flicker, and some terminals copy a cleared screen
// into their scrollback. If the lines do not fit into the window, redraw omits the topmost ones,
// because lines that have scrolled out cannot be overwritten. The caller must hold mu.
func (s *screen) redraw() error {
	var lines []string
	now := picture{}
	for _, r := range s.regions {
		if len(r.lines) > 0 {
			_, rows := r.to.size()
			lines = append(lines, r.lines...)
			lines = lines[max(0, len(lines)-max(rows-1, 1)):]
			now = picture{r.to.W, len(lines), r.block}
		}
	}
	s.echo.setHidden(now.lines > 0)
	if now.lines == 0 {
		s.erase()
		return nil
	}
	text, end := strings.Join(lines, "\n"), ""
	if s.picture.lines > 0 {
		text = beginUpdate + s.picture.top() + strings.Join(lines, "\x1b[K\n") + "\x1b[K"
		end = "\x1b[J" + endUpdate
	}
	if now.block {
		text += "\n"
	}
	s.picture = now
	_, err := io.WriteString(now.to, text+end)
	return err
}

// erase removes the regions from the terminal. The caller must hold mu.
func (s *screen) erase() {
	if s.picture.lines > 0 {
		// ignore the error, because the next Draw reports a failed write
		_, _ = io.WriteString(s.picture.to, s.picture.top()+"\x1b[J")
	}
	s.picture = picture{}
}

// hideRegions removes the regions from the terminal, so that the caller can print to out. It
// returns a function that draws the regions again, below the printed text. The caller must hold mu
// during both calls.
func (s *screen) hideRegions(out Output) (putBack func()) {
	if !out.TTY || s.picture.lines == 0 {
		return func() {}
	}
	to := s.picture.to
	_, _ = io.WriteString(to, beginUpdate) // ignore errors here, because the next Draw reports a failed write
	s.erase()
	return func() {
		_ = s.redraw()
		_, _ = io.WriteString(to, endUpdate)
	}
}

const (
	progressAfter = 500 * time.Millisecond // time from the start of a task until its progress is shown
	progressEvery = 100 * time.Millisecond // time between two updates of the progress
)

// progress returns functions that show the progress of a task and end the display. Nothing is
// shown until the task has run for progressAfter.
func (s *screen) progress(verb string) (update func(done, total int), end func()) {
	start := time.Now()
	next := start.Add(progressAfter)
	r, drawn, ended := s.region(commands.Remarks), false, false
	update = func(done, total int) {
		if ended || s.out.TTY && s.streaming.Load() { // the streamed answer itself shows the progress
			return
		}
		if now := time.Now(); now.After(next) {
			next, drawn = now.Add(progressEvery), true
			rate := float64(done) / now.Sub(start).Seconds()
			// ignore the error, because a failed write must not stop the task
			_ = r.Draw(fmt.Sprintf("%s %d of %d (%d %%), %.0f/s", verb, done, total, 100*done/max(total, 1), rate))
		}
	}
	return update, func() {
		// if nothing was drawn, do not call Close, which could block while a pager holds the screen
		if ended = true; drawn {
			_ = r.Close(false)
		}
	}
}
