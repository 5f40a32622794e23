package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// An event is a change of a contender's state in a scene, or a single occurrence such as a
// rejected write.
type event struct {
	scene  *scene
	at     time.Duration // time since the scene began
	counts traffic       // traffic of the scene up to the event

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
	return render.Marshal(render.Facts{"event", e.Event, "scheme", e.scene.scheme.name, "n", e.scene.n, "contender", e.Contender, "ms", ms(e.at)})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// A display shows scenes. On a terminal it draws a lane for each contender, and elsewhere it prints
// a line for each event. It shows a scene either while it runs or, if the scene is too fast for
// people, slowed down after its end. Contenders never wait for output, because a separate goroutine
// writes it.
type display struct {
	screen commands.Screen
	region commands.Region
	pace   pace

	mu     sync.Mutex
	events []event
	// wake receives a value when events may not be empty. Its capacity is 1.
	wake chan struct{}

	requests chan func() error // functions for the goroutine to call
	done     chan struct{}
	// err is the first error when writing output. It may be read only after done is closed.
	err error

	// The fields below are used only by the goroutine.
	timelines []*timeline // all scenes so far, the current one last
	running   bool        // whether a scene is running, which is redrawn at each tick
}

// framePause is the minimum time between two redraws of the terminal.
const framePause = 100 * time.Millisecond

// openDisplay starts a display, which calls fail if it cannot write its output. The caller must
// call close at the end.
func openDisplay(screen commands.Screen, p pace, fail func(error)) *display {
	s := &display{screen: screen, region: screen.Region(commands.Answers), pace: p,
		wake: make(chan struct{}, 1), requests: make(chan func() error), done: make(chan struct{})}
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
				if s.running {
					err = s.draw()
				}
			case do, open = <-s.requests:
				if open {
					err = do()
				} else { // close the region now, so that no later tick draws it again
					err = errors.Join(s.takeEvents(), s.region.Close(s.running && s.pace.live))
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

// close waits until all events have been shown, and then stops the display.
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

// begin adds a timeline for a scene that begins.
func (s *display) begin(sc *scene) {
	s.do(func() error {
		s.timelines, s.running = append(s.timelines, newTimeline(sc)), true
		return nil
	})
}

// finish adds the result of the current scene.
func (s *display) finish(r *result) {
	s.do(func() error {
		b := s.timelines[len(s.timelines)-1]
		b.result, b.length, s.running = r, b.last().at, false
		return nil
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

// takeEvents moves the queued events to the current timeline. If scenes are shown while they run,
// and the output is not a terminal, it also prints them.
func (s *display) takeEvents() error {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		s.timelines[len(s.timelines)-1].add(e)
		if err := s.print(e); err != nil {
			return err
		}
	}
	return nil
}

// print prints an event if scenes are shown while they run, and the output is not a terminal.
func (s *display) print(e event) error {
	if columns, _ := s.region.Size(); columns > 0 || s.err != nil || !s.pace.live {
		return nil
	}
	return s.screen.Print(e)
}

// draw draws the lanes of the running scene or, if the scene is shown after its end, its name.
func (s *display) draw() error {
	b := s.timelines[len(s.timelines)-1]
	now := b.scene.elapsed()
	if !s.pace.live {
		return s.region.Draw(fmt.Sprintf("%s: running for %.1f s", b.title(), now.Seconds()))
	}
	return s.drawGroup(s.timelines[len(s.timelines)-1:], now, now, 1)
}
