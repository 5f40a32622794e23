package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// event is one thing that happens in a scene.
type event struct {
	scene *scene
	at    time.Duration // since the scene began

	Contender int
	Event     state
}

// Text is one line.
func (e event) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s n=%d %8.1f ms  %s %s\n", e.scene.scheme.name, e.scene.n, ms(e.at), e.scene.lane(e.Contender), e.Event)
	return err
}

// MarshalJSON gives one object.
func (e event) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"event", e.Event, "scheme", e.scene.scheme.name, "n", e.scene.n, "contender", e.Contender, "ms", ms(e.at)})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// lane is what a contender is called.
func (sc *scene) lane(number int) string {
	if number == 0 {
		return "start"
	}
	return fmt.Sprintf("%5d", number)
}

// show shows the scenes as they go on. Contenders say what happens, and never wait
// for that to be shown.
type show struct {
	screen commands.Screen

	mu     sync.Mutex
	events []event
	more   chan struct{} // capacity 1: there may be events
	end    chan struct{}
	done   chan struct{}
	err    error // of showing; to be read once done is closed
}

// open begins a show. It ends with close, or, with fail, when it cannot go on.
func openShow(screen commands.Screen, fail func(error)) *show {
	s := &show{screen: screen, more: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{})}
	go func() { // until close, which waits for it
		defer close(s.done)
		for ended := false; s.err == nil && !ended; {
			select {
			case <-s.more:
			case <-s.end:
				ended = true
			}
			if s.err = s.flush(); s.err != nil {
				fail(s.err)
			}
		}
	}()
	return s
}

// close shows what is left.
func (s *show) close() error {
	close(s.end)
	<-s.done
	return s.err
}

func (s *show) begin(*scene) {}

func (s *show) say(e event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *show) flush() error {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		if err := s.screen.Print(e); err != nil {
			return err
		}
	}
	return nil
}
