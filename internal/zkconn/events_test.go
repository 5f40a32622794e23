package zkconn

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
)

// event sends a change of a znode's data.
func (p *remote) event(path string) bool {
	var e jute.Encoder
	e.Int(jute.XidEvent)
	e.Long(-1)
	e.Int(0, 3, 3)
	e.String(path)
	return p.frame(e.B)
}

// Events that no watch asked for are dropped, as Java's client does; those of a watch are
// kept, each in its turn.
func TestUnwatchedEventsAreDropped(t *testing.T) {
	serve := func(_ int, p *remote) {
		p.host(func(xid, op int32) bool {
			for _, path := range []string{"/a", "/a/b", "/ab", "/", "no path", ""} {
				if !p.event(path) {
					return false
				}
			}
			return p.reply(xid, codeOK)
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		nodes := func() (paths []string) {
			for _, e := range s.Events() {
				if !e.Session() {
					paths = append(paths, e.Path)
				}
			}
			return paths
		}
		for _, step := range []struct {
			ask  func() error
			want string // of the events before the answer to the next request
		}{
			{func() error { err := Exec(limited(t), s, Exists("/a").Watch(true)); return err }, ""},
			{func() error { err := Exec(limited(t), s, Exists("/a")); return err }, "/a"},
			{func() error { return Exec(limited(t), s, AddWatch("/a", false)) }, ""},
			{func() error { err := Exec(limited(t), s, Exists("/x")); return err }, "/a"},
			{func() error { return Exec(limited(t), s, AddWatch("/a", true)) }, "/a"},
			{func() error { err := Exec(limited(t), s, Exists("/x")); return err }, "/a /a/b"},
		} {
			if err := step.ask(); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(nodes(), " "); got != step.want {
				t.Errorf("events of %q, not %q", got, step.want)
			}
		}
	})
}

// A session whose watched events nobody takes ends with an error. None of those before is
// lost, and none goes missing unnoticed.
func TestTooManyWatchedEvents(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: it takes long")
	}
	var sent atomic.Int64
	serve := func(n int, p *remote) {
		p.host(func(xid, op int32) bool {
			if !p.reply(xid, codeOK) {
				return false
			}
			if op == jute.OpAddWatch {
				go func() { // ends with the connection
					for p.event("/a" + strings.Repeat("/b", 5000)) {
						sent.Add(1)
					}
				}()
			}
			return true
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		if err := Exec(limited(t), s, AddWatch("/a", true)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		err := Exec(limited(t), s, Exists("/x"))
		if !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), "events faster than zksh could process them") || s.Gone() == nil {
			t.Errorf("got %v", err)
		}
		events, kept, sent := s.Events(), 0, int(sent.Load())
		for _, e := range events {
			if !e.Session() {
				kept++
			}
		}
		if last := events[len(events)-1]; kept < 3000 || kept < sent-1 || kept*10_000 > maxEvents || last.State != eventClosed {
			t.Errorf("%d of %d events were kept, and the last is %v", kept, sent, last)
		}
		first := s.current()
		if err := s.Connect(limited(t), ""); err != nil {
			t.Fatal(err)
		}
		if err := Exec(limited(t), s, Exists("/x")); err != nil {
			t.Errorf("after connect: %v", err)
		}
		<-ended(first)
	})
}
