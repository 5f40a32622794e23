package shell

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
)

// item is a render.Item with one cell.
type item string

func (n item) Cells() []string { return []string{string(n)} }
func (n item) JSON() any       { return string(n) }

// Errors and events that arrive during a streamed answer are printed between its lines. The screen
// is not locked while the stream waits.
func TestStreamSharesTheScreen(t *testing.T) {
	s := newTestScreen(t)
	between := func() {
		s.complain("oh")
		_ = s.event(plain("WATCHER\n"))
	}
	items := func(yield func(render.Item) bool) {
		_ = yield(item("one")) && yield(nil)
		between()
		_ = yield(item("two"))
		between() // two has not been printed yet
	}
	s.writes("one\noh\nWATCHER\noh\nWATCHER\ntwo\n", func() error {
		return s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: items})
	})
	r := s.region(commands.Answers)
	s.writes("new\n", draw(r, "new"))
	s.writes("\r\x1b[1A\x1b[Jone\nnew\n", func() error {
		return s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: slices.Values([]render.Item{item("one")})})
	})
}

// No progress is drawn while an answer is streamed.
func TestStreamHidesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, flowing := range []bool{true, false} {
			s := newTestScreen(t)
			s.streaming.Store(flowing)
			update, end := s.progress("listed")
			time.Sleep(2 * progressAfter)
			update(1, 2)
			end()
			if drawn := s.term.Len() > 0; drawn == flowing {
				t.Errorf("flowing %v: %q", flowing, s.term.String())
			}
		}
	})
}

// A failed write stops the producer of a streamed answer.
func TestStreamEndsWithTheReader(t *testing.T) {
	s := newTestScreen(t)
	gone := errors.New("the reader is gone")
	r, w := io.Pipe()
	r.CloseWithError(gone)
	s.out.W = w
	made := 0
	err := s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: func(yield func(render.Item) bool) {
		for made = 1; yield(item("line")) && yield(nil); made++ {
		}
	}})
	if !errors.Is(err, gone) || made != 1 {
		t.Errorf("%d lines were made: %v", made, err)
	}
}
