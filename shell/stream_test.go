package shell

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/shell/exit"
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

// An unreadable is a Value that is read from a server while it is printed, until the connection is
// lost.
type unreadable struct{ lost error }

func (u unreadable) Text(w io.Writer) error {
	if _, err := io.WriteString(w, strings.Repeat("data\n", 1<<16)); err != nil {
		return err
	}
	return u.lost
}

// The error of an answer that cannot be read is not that of a failed write, which would end a script,
// even if the connection reports the same system error as a closed pipe.
func TestAnswerThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		to   io.Writer
		want int
	}{
		{io.Discard, commands.StatusNoServer},
		{failing{syscall.EPIPE}, commands.StatusBrokenPipe},
	} {
		s := New(Config{Out: Output{W: c.to}, Err: Output{W: io.Discard}, Format: render.Text})
		err := s.screen.answer(unreadable{&zkconn.LostError{Cause: syscall.EPIPE}})
		if got := exit.Status(err); got != c.want {
			t.Errorf("status %d, not %d: %v", got, c.want, err)
		}
	}
}
