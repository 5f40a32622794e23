package demo

import (
	"strings"
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
	drawnLate int    // number of calls of Draw after Close
	last      string // last picture
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

func (r slowRegion) Paint(lines ...render.Line) error {
	r.s.last = ""
	for _, l := range lines {
		r.s.last += l.Text() + "\n"
	}
	return r.Draw()
}

func (r slowRegion) Close(bool) error {
	time.Sleep(3 * framePause)
	r.s.closed = true
	return nil
}

// No picture is drawn after the scene is over. It would remain on the terminal below all later
// output.
func TestNothingIsDrawnAfterClose(t *testing.T) {
	for range 20 { // a select chooses randomly between ready cases
		synctest.Test(t, func(t *testing.T) {
			screen := &slowScreen{}
			st := newStage(&commands.Env{Screen: screen}, usualTimeout)
			sc := st.newScene(setting{scheme: schemes[0], n: 2, shown: true})
			sc.start = time.Now()
			over := make(chan struct{})
			go func() {
				defer close(over)
				time.Sleep(2 * framePause)
				sc.contenders[1].record(holds)
			}()
			if err := sc.follow(over); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * framePause)
			if screen.drawn == 0 || !screen.closed || screen.drawnLate > 0 {
				t.Errorf("drawn %d times, %d of them too late, closed: %t", screen.drawn, screen.drawnLate, screen.closed)
			}
			if !strings.Contains(screen.last, "Contender 1 holds") {
				t.Errorf("the last event was not drawn: %q", screen.last)
			}
		})
	}
}
