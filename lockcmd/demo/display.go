package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// An event is a change of a contender's state in a scene, or a single occurrence such as a
// rejected write.
type event struct {
	scene *scene
	at    time.Duration // time since the scene began

	Contender int
	Event     state
}

// Text writes the event as one line of text.
func (e event) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s n=%d  %8.1f ms  %3d %s\n", e.scene.scheme.name, e.scene.n, ms(e.at), e.Contender, e.Event)
	return err
}

// IsEvent marks event as a render.Event.
func (event) IsEvent() {}

// MarshalJSON encodes the event as one JSON object.
func (e event) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"event", e.Event, "scheme", e.scene.scheme.name, "n", e.scene.n,
		"contender", e.Contender, "ms", ms(e.at)})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// A display shows scenes while they run. On a terminal it draws a lane for each contender, and
// elsewhere it prints a line for each event. Contenders never wait for output, because a separate
// goroutine writes it.
type display struct {
	screen   commands.Screen
	region   commands.Region
	terminal bool

	mu     sync.Mutex
	events []event
	// wake receives a value when events may not be empty. Its capacity is 1.
	wake chan struct{}

	requests chan func() error // functions for the goroutine to call
	done     chan struct{}
	// err is the first error when writing output. It may be read only after done is closed.
	err error

	// The fields below are used only by the goroutine.
	current *timeline   // the scene that runs, or nil
	group   []*timeline // the scenes that are drawn beside each other, the current one last
	places  int         // number of scenes in the group once it is complete
}

// framePause is the minimum time between two redraws of the terminal.
const framePause = 100 * time.Millisecond

// openDisplay starts a display, which calls fail if it cannot write its output. The caller must
// call close at the end.
func openDisplay(screen commands.Screen, fail func(error)) *display {
	s := &display{screen: screen, region: screen.Region(commands.Answers), wake: make(chan struct{}, 1),
		requests: make(chan func() error), done: make(chan struct{})}
	columns, _ := s.region.Size()
	s.terminal = columns > 0
	go func() { // ends when close is called
		defer close(s.done)
		tick := time.NewTicker(framePause)
		defer tick.Stop()
		for open := true; open; {
			var err error
			var do func() error
			select {
			case <-s.wake:
				err = s.takeEvents()
			case <-tick.C:
				if s.current != nil {
					err = s.draw()
				}
			case do, open = <-s.requests:
				if open {
					err = do()
				} else { // close the region now, so that no later tick draws it again
					err = errors.Join(s.takeEvents(), s.region.Close(len(s.group) > 0))
				}
			}
			if err != nil && s.err == nil {
				s.err = err
				fail(err)
			}
		}
	}()
	return s
}

// close waits until all events have been shown, and then stops the display. The lanes of a scene
// that has not finished stay on the screen.
func (s *display) close() error {
	close(s.requests)
	<-s.done
	return s.err
}

// do makes the display's goroutine call f once it has taken all earlier events, and waits until f
// has returned.
func (s *display) do(f func() error) {
	ended := make(chan struct{})
	s.requests <- func() error {
		defer close(ended)
		if err := s.takeEvents(); err != nil {
			return err
		}
		return f()
	}
	<-ended
}

// sideBySide is the minimum number of columns to draw two scenes beside each other.
const sideBySide = 160

// perGroup returns the number of scenes to draw beside each other.
func (s *display) perGroup() (n int) {
	s.do(func() error {
		n = 1
		if columns, _ := s.region.Size(); columns >= sideBySide {
			n = 2
		}
		return nil
	})
	return n
}

// openGroup begins a group of scenes that are drawn beside each other. If there are no places, the
// next scenes are not drawn.
func (s *display) openGroup(places int) {
	s.do(func() error {
		s.places = places
		return nil
	})
}

// begin adds a timeline for a scene that begins.
func (s *display) begin(sc *scene) {
	s.do(func() error {
		s.current = newTimeline(sc)
		if s.places > 0 {
			s.group = append(s.group, s.current)
		}
		return nil
	})
}

// finish adds the result of the current scene. If its group is now complete, the last picture stays
// on the screen.
func (s *display) finish(r *result) {
	s.do(func() error {
		s.current.result, s.current.length = r, s.current.last.at
		err := s.draw()
		if s.current = nil; err != nil || len(s.group) < s.places || s.places == 0 {
			return err
		}
		s.group = nil
		return s.region.Close(true)
	})
}

// keepPicture leaves the current picture of the lanes on the screen, and calls ask below it.
func (s *display) keepPicture(ctx context.Context, ask func(context.Context) error) (err error) {
	s.do(func() error {
		if err := s.draw(); err != nil {
			return err
		}
		if err := s.region.Close(true); err != nil {
			return err
		}
		err = ask(ctx)
		return nil
	})
	return err
}

// add queues an event to be shown. It does not wait for output.
func (s *display) add(e event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// takeEvents moves the queued events to the current timeline. If the output is not a terminal, it
// also prints them.
func (s *display) takeEvents() error {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		s.current.add(e)
		if s.terminal || s.err != nil {
			continue
		}
		if err := s.screen.Print(e); err != nil {
			return err
		}
	}
	return nil
}

// draw draws the current group of scenes on the terminal. If the current scene is not drawn, it
// shows only its name.
func (s *display) draw() error {
	columns, rows := s.region.Size()
	if columns == 0 {
		return nil
	}
	if len(s.group) == 0 {
		return s.region.Draw("counting at full speed: " + s.current.title())
	}
	var end time.Duration // all scenes of the group have the same time scale
	for _, b := range s.group {
		end = max(end, b.end())
	}
	if s.places > 1 && columns >= sideBySide {
		return s.region.Paint(besideEachOther(s.group, columns, rows, end)...)
	}
	var lines []render.Line // the window may have become narrower
	for _, b := range s.group {
		lines = append(lines, b.picture(columns, rows/len(s.group), end)...)
	}
	return s.region.Paint(lines...)
}

// besideEachOther draws one or two scenes, the first in the left half of the terminal.
func besideEachOther(group []*timeline, columns, rows int, end time.Duration) (lines []render.Line) {
	half := (columns - 3) / 2
	left, right := group[0].picture(half, rows, end), []render.Line(nil)
	if len(group) > 1 {
		right = group[1].picture(half, rows, end)
	}
	for i := range max(len(left), len(right)) {
		l := lineAt(left, i)
		l = append(l, render.Span{Text: strings.Repeat(" ", max(0, half-l.Width())) + " │ ", Style: render.Dim})
		lines = append(lines, append(l, lineAt(right, i)...))
	}
	return lines
}

// lineAt returns line i, or an empty line if there are fewer lines.
func lineAt(lines []render.Line, i int) render.Line {
	if i < len(lines) {
		return lines[i][:len(lines[i]):len(lines[i])]
	}
	return nil
}
