package shell

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// region is a commands.Region of a screen. One on standard output is a block that
// ends its last line; one on standard error leaves the cursor behind its text, so
// that what comes next takes its place. The screen's lock guards it.
type region struct {
	s     *screen
	to    *Output
	block bool
	lines []string // as they are shown
	drawn int      // how many of them are on the terminal
}

// Size is part of commands.Region.
func (r *region) Size() (columns, rows int) {
	if !r.to.TTY || r.block && r.s.printer.Format == render.JSON {
		return 0, 0
	}
	return r.to.size()
}

// margin is left free behind the text of a region: a full line wraps on some
// terminals, and behind the cursor they echo what is typed.
func (r *region) margin() int {
	if r.block {
		return 1
	}
	return 4
}

// Draw is part of commands.Region. The lines are cut to the height of the window as
// well: what has scrolled out cannot be drawn anew.
func (r *region) Draw(lines ...string) error {
	columns, rows := r.Size()
	if columns == 0 {
		return nil
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.lines = nil
	for _, l := range lines[:min(len(lines), max(rows-1, 1))] {
		r.lines = append(r.lines, render.Cut(render.Safe(l), columns-r.margin()))
	}
	return r.s.show(r)
}

// Close is part of commands.Region.
func (r *region) Close(keep bool) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if !keep {
		r.s.erase()
	}
	r.s.regions = slices.DeleteFunc(r.s.regions, func(o *region) bool { return o == r })
	return r.s.restore()
}

// take removes the text from the terminal. Called with the screen's lock held.
func (r *region) take() {
	if r.drawn == 0 {
		return
	}
	_, _ = io.WriteString(r.to.W, r.top()+"\x1b[J") // the next Draw tells
	r.drawn = 0
}

// top moves the cursor from the end of the region to its start.
func (r *region) top() string {
	up := r.drawn
	if !r.block {
		up--
	}
	if up == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", up)
}

// put shows the text. Over an older one it goes line by line: a screen that is
// cleared first flickers, and some keep a copy of it. Called with the screen's lock held.
func (r *region) put() error {
	if len(r.lines) == 0 {
		return nil
	}
	text := strings.Join(r.lines, "\n")
	if r.drawn > 0 {
		text = r.top() + strings.Join(r.lines, "\x1b[K\n") + "\x1b[K"
	}
	if r.block {
		text += "\n"
	}
	if r.drawn > 0 {
		text += "\x1b[J"
	}
	r.drawn = len(r.lines)
	_, err := io.WriteString(r.to.W, text)
	return wrapWrite(err)
}

// region begins a region; it is on the terminal from its first Draw on.
func (s *screen) region(on commands.Stream) *region {
	if on == commands.Answers {
		return &region{s: s, to: &s.out, block: true}
	}
	return &region{s: s, to: &s.err}
}

// show puts a region on the terminal, the newest at the bottom. Called with mu held.
func (s *screen) show(r *region) error {
	at := slices.Index(s.regions, r)
	if at < 0 {
		s.regions = append(s.regions, r)
		return r.put()
	}
	if at < len(s.regions)-1 {
		s.erase()
	}
	return s.restore()
}

// erase takes all regions off the terminal, for what is printed above them. Called
// with mu held.
func (s *screen) erase() {
	for _, r := range slices.Backward(s.regions) {
		r.take()
	}
}

// restore shows all regions again. Called with mu held.
func (s *screen) restore() error {
	var errs []error
	for _, r := range s.regions {
		errs = append(errs, r.put())
	}
	return errors.Join(errs...)
}

// When progress is shown, and how often it is drawn anew.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 100 * time.Millisecond
)

// progress shows how far a piece of work is, once it has taken long enough.
func (s *screen) progress(verb string) (update func(done, total int), end func()) {
	start := time.Now()
	next := start.Add(progressAfter)
	r := s.region(commands.Remarks)
	update = func(done, total int) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			_ = r.Draw(progressLine(verb, done, total, now.Sub(start))) // the work goes on without a show
		}
	}
	return update, func() { _ = r.Close(false) }
}

func progressLine(verb string, done, total int, took time.Duration) string {
	rate := float64(done) / took.Seconds()
	return fmt.Sprintf("%s %d of %d (%d %%), %.0f/s", verb, done, total, 100*done/max(total, 1), rate)
}
