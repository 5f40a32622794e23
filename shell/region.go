package shell

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/shell/exit"
)

// region is a commands.Region of a screen. One on standard output is a block that
// ends its last line; one on standard error leaves the cursor behind its text, so
// that what comes next takes its place.
type region struct {
	s      *screen
	to     *Output
	block  bool
	margin int      // is left free behind the text: full lines may wrap, and behind the cursor keys are echoed
	lines  []string // cut to the window; guarded by the screen's lock
}

// picture is what a terminal shows of all regions together.
type picture struct {
	to    io.Writer
	lines int  // how many it has; 0 is no picture
	block bool // the cursor is below it, not behind it
}

// region begins a region; it is on the terminal from its first Draw on.
func (s *screen) region(on commands.Stream) *region {
	if on == commands.Answers {
		return &region{s: s, to: &s.out, block: true, margin: 1}
	}
	return &region{s: s, to: &s.err, margin: 4}
}

// Size is part of commands.Region.
func (r *region) Size() (columns, rows int) {
	if !r.to.TTY || r.to.Dumb || r.block && r.s.printer.Format == render.JSON {
		return 0, 0
	}
	return r.to.size()
}

// Draw is part of commands.Region.
func (r *region) Draw(lines ...string) error {
	columns, rows := r.Size()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if columns == 0 || r.s.shut {
		return nil
	}
	r.lines = nil
	for _, l := range lines[:min(len(lines), max(rows-1, 1))] {
		r.lines = append(r.lines, render.Cut(render.Safe(l), columns-r.margin))
	}
	if !slices.Contains(r.s.regions, r) {
		r.s.regions = append(r.s.regions, r)
	}
	return r.s.redraw()
}

// Close is part of commands.Region. What is to stay goes to the top of the picture,
// and then belongs to it no more.
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
			return exit.Unwritten(err)
		}
		return s.redraw()
	}
	s.picture.lines = max(0, s.picture.lines-len(r.lines))
	s.keys.hidden(len(s.regions) > 0)
	return nil
}

// top moves the cursor from the end of the picture to its start.
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

// redraw puts the regions as they are now into the place of what is shown of them.
// It goes line by line: a screen that is cleared first flickers, and some keep a
// copy of it. What does not fit into the window is left out at the top, because
// what has scrolled out cannot be drawn anew. It is called with mu held.
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
	s.keys.hidden(now.lines > 0)
	if now.lines == 0 {
		s.erase()
		return nil
	}
	text, end := strings.Join(lines, "\n"), ""
	if s.picture.lines > 0 {
		text = s.picture.top() + strings.Join(lines, "\x1b[K\n") + "\x1b[K"
		end = "\x1b[J"
	}
	if now.block {
		text += "\n"
	}
	s.picture = now
	_, err := io.WriteString(now.to, text+end)
	return exit.Unwritten(err)
}

// erase takes the picture off the terminal. It is called with mu held.
func (s *screen) erase() {
	if s.picture.lines > 0 {
		_, _ = io.WriteString(s.picture.to, s.picture.top()+"\x1b[J") // what fails here the next Draw tells
	}
	s.picture = picture{}
}

// makeWay takes the picture away for what is printed on a stream, and gives a
// function that puts it back below. It is called with mu held, and so is that.
func (s *screen) makeWay(on Output) (putBack func()) {
	if !on.TTY {
		return func() {}
	}
	s.erase()
	return func() { _ = s.redraw() } // what fails here the next Draw tells
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
	r, drawn, ended := s.region(commands.Remarks), false, false
	update = func(done, total int) {
		if ended || s.out.TTY && s.flowing.Load() { // what comes shows it
			return
		}
		if now := time.Now(); now.After(next) {
			next, drawn = now.Add(progressEvery), true
			rate := float64(done) / now.Sub(start).Seconds()
			_ = r.Draw(fmt.Sprintf("%s %d of %d (%d %%), %.0f/s", verb, done, total, 100*done/max(total, 1), rate)) // it goes on without a show
		}
	}
	return update, func() {
		if ended = true; drawn { // else there is nothing to take away, and a pager may have the screen
			_ = r.Close(false)
		}
	}
}
