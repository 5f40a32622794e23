package demo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
)

// slowScreen is a screen whose region takes longer to close than a frame lasts.
type slowScreen struct {
	commandtest.Screen
	drawn     int
	closed    bool
	drawnLate int // number of calls of Draw after Close
}

func (s *slowScreen) Region(commands.Stream) commands.Region { return slowRegion{s} }

type slowRegion struct{ s *slowScreen }

func (slowRegion) Size() (columns, rows int) { return 80, 24 }

func (r slowRegion) Draw(...string) error {
	if r.s.drawn++; r.s.closed {
		r.s.drawnLate++
	}
	return nil
}

func (r slowRegion) Paint(...render.Line) error { return r.Draw() }

func (r slowRegion) Close(bool) error {
	time.Sleep(3 * framePause)
	r.s.closed = true
	return nil
}

// No picture is drawn after the display is closed. It would remain on the terminal below all
// later output.
func TestNothingIsDrawnAfterClose(t *testing.T) {
	for range 20 { // a select chooses randomly between ready cases
		synctest.Test(t, func(t *testing.T) {
			screen := &slowScreen{}
			s := openDisplay(screen, func(err error) { t.Error(err) })
			s.openGroup(1)
			s.begin(&scene{runner: &runner{}, scheme: schemes[0], n: 2})
			time.Sleep(2 * framePause)
			s.add(event{scene: s.current.scene, Contender: 1, Event: holds})
			if err := s.close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if screen.drawn == 0 || !screen.closed || screen.drawnLate > 0 {
				t.Errorf("drawn %d times, %d of them too late, closed: %t", screen.drawn, screen.drawnLate, screen.closed)
			}
			if lanes := s.current.lanes[1]; len(lanes) != 1 {
				t.Errorf("the last event was not taken: %v", lanes)
			}
		})
	}
}
