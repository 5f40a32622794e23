package demo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
)

// slowScreen has a region that takes longer to close than a frame is shown for.
type slowScreen struct {
	commandtest.Screen
	drawn  int
	closed bool
	late   int // drawn once it was closed
}

func (s *slowScreen) Region(commands.Stream) commands.Region { return slowRegion{s} }

type slowRegion struct{ s *slowScreen }

func (slowRegion) Size() (columns, rows int) { return 80, 24 }

func (r slowRegion) Draw(...string) error {
	if r.s.drawn++; r.s.closed {
		r.s.late++
	}
	return nil
}

func (r slowRegion) Close(bool) error {
	time.Sleep(3 * frameEvery)
	r.s.closed = true
	return nil
}

// A picture that was drawn once more behind the end of the show would stay on the
// terminal, and come back below all that is printed.
func TestNothingIsDrawnBehindTheEnd(t *testing.T) {
	for range 20 { // which of two that are ready goes first is chance
		synctest.Test(t, func(t *testing.T) {
			screen := &slowScreen{}
			s := openShow(screen, nil, func(err error) { t.Error(err) })
			s.begin(&scene{scheme: schemes[0], n: 2})
			time.Sleep(2 * frameEvery)
			s.say(event{scene: s.boards[0].scene, Contender: 1, Event: holds})
			if err := s.close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if screen.drawn == 0 || !screen.closed || screen.late > 0 {
				t.Errorf("drawn %d times, %d of them too late, closed: %t", screen.drawn, screen.late, screen.closed)
			}
			if lanes := s.boards[0].lanes[1]; len(lanes) != 1 {
				t.Errorf("the last event was not taken: %v", lanes)
			}
		})
	}
}
