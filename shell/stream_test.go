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

// name is an item of a test.
type name string

func (n name) Cells() []string { return []string{string(n)} }
func (n name) JSON() any       { return string(n) }

// What else is shown while an answer comes stands between its lines, and the screen is
// free whenever the answer waits.
func TestStreamSharesTheScreen(t *testing.T) {
	s := play(t)
	between := func() {
		s.complain("oh")
		_ = s.event(plain("WATCHER\n"))
	}
	items := func(yield func(render.Item) bool) {
		_ = yield(name("one")) && yield(nil)
		between()
		_ = yield(name("two"))
		between() // it is not shown yet
	}
	s.writes("one\noh\nWATCHER\noh\nWATCHER\ntwo\n", func() error {
		return s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: items})
	})
	r := s.region(commands.Answers)
	s.writes("new\n", draw(r, "new"))
	s.writes("\r\x1b[1A\x1b[Jone\nnew\n", func() error {
		return s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: slices.Values([]render.Item{name("one")})})
	})
}

// Progress is not drawn over an answer that comes.
func TestStreamHidesProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, flowing := range []bool{true, false} {
			s := play(t)
			s.flowing.Store(flowing)
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

// An answer that cannot be written any more ends what makes it.
func TestStreamEndsWithTheReader(t *testing.T) {
	s := play(t)
	gone := errors.New("the reader is gone")
	r, w := io.Pipe()
	r.CloseWithError(gone)
	s.out.W = w
	made := 0
	err := s.answer(&render.Stream{Bare: true, Columns: []render.Column{{}}, Items: func(yield func(render.Item) bool) {
		for made = 1; yield(name("line")) && yield(nil); made++ {
		}
	}})
	if !errors.Is(err, gone) || made != 1 {
		t.Errorf("%d lines were made: %v", made, err)
	}
}
