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

// event is one thing that happens in a scene.
type event struct {
	scene *scene
	at    time.Duration // since the scene began

	Contender int
	Event     state
}

// Text is one line.
func (e event) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s n=%d  %8.1f ms  %3d %s\n", e.scene.scheme.name, e.scene.n, ms(e.at), e.Contender, e.Event)
	return err
}

// IsEvent is part of render.Event.
func (event) IsEvent() {}

// MarshalJSON gives one object.
func (e event) MarshalJSON() ([]byte, error) {
	return render.Marshal(render.Facts{"event", e.Event, "scheme", e.scene.scheme.name, "n", e.scene.n, "contender", e.Contender, "ms", ms(e.at)})
}

func ms(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

// show shows the scenes as they go on: as lanes on a terminal, elsewhere a line for
// each event. Contenders say what happens, and never wait for that to be shown. All
// that shows belongs to one goroutine.
type show struct {
	screen commands.Screen
	region commands.Region
	cast   *cast // may be nil

	mu     sync.Mutex
	events []event
	more   chan struct{} // capacity 1: there may be events

	requests chan func() error // what the goroutine is to do
	done     chan struct{}
	err      error // of showing; to be read once done is closed

	boards []*board // of the scenes so far; the goroutine's own
}

// frameEvery is how often a terminal is brought up to date.
const frameEvery = 100 * time.Millisecond

// openShow begins a show. When it cannot go on it calls fail; close ends it.
func openShow(screen commands.Screen, c *cast, fail func(error)) *show {
	s := &show{screen: screen, region: screen.Region(commands.Answers), cast: c,
		more: make(chan struct{}, 1), requests: make(chan func() error), done: make(chan struct{})}
	go func() { // until close, which waits for it
		defer close(s.done)
		tick := time.NewTicker(frameEvery)
		defer tick.Stop()
		for goOn := true; goOn; {
			var err error
			var do func() error
			select {
			case <-s.more:
				err = s.take()
			case <-tick.C:
				err = s.draw()
			case do, goOn = <-s.requests:
				if goOn {
					err = do()
				} else { // here, or a tick could draw what was taken away
					err = errors.Join(s.take(), s.region.Close(false))
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

// close ends the show, once all events have been shown.
func (s *show) close() error {
	close(s.requests)
	<-s.done
	return s.err
}

// do has the show's goroutine do something, once it has shown all events so far.
func (s *show) do(f func() error) {
	ended := make(chan struct{})
	s.requests <- func() error {
		defer close(ended)
		if err := s.take(); err != nil {
			return err
		}
		return f()
	}
	<-ended
}

// begin shows a new scene.
func (s *show) begin(sc *scene) {
	s.do(func() error {
		s.boards = append(s.boards, newBoard(sc))
		return nil
	})
}

// finish shows how a scene has ended.
func (s *show) finish(r *result) {
	s.do(func() error {
		s.boards[len(s.boards)-1].result = r
		return s.draw()
	})
}

// still leaves the present picture where it is, and then asks.
func (s *show) still(ctx context.Context, ask func(context.Context) error) (err error) {
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

func (s *show) say(e event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// take puts what has happened on the board, and prints it where no board is shown.
func (s *show) take() error {
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	columns, _ := s.region.Size()
	for _, e := range events {
		s.boards[len(s.boards)-1].add(e)
		if columns == 0 && s.err == nil {
			if err := s.screen.Print(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw brings the lanes up to date.
func (s *show) draw() error {
	if len(s.boards) == 0 {
		return nil
	}
	b := s.boards[len(s.boards)-1]
	if s.cast != nil {
		s.cast.frame(b.picture(castColumns, castRows))
	}
	columns, rows := s.region.Size()
	if columns == 0 {
		return nil
	}
	return s.region.Draw(b.picture(columns, rows)...)
}
