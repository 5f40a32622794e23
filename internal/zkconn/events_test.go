package zkconn

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zktest"
)

// event sends a NodeDataChanged event.
func (p *remote) event(path string) bool {
	var e jute.Encoder
	e.Int(jute.XidEvent)
	e.Long(-1)
	e.Int(0, 3, 3)
	e.String(path)
	return p.frame(e.B)
}

// Events for which there is no watch are dropped, as in Java's client. Events of a watch are
// kept in order.
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
			want string // paths of the events since the previous step
		}{
			{func() error { err := Exec(testContext(t), s, Exists("/a").Watch(true)); return err }, ""},
			{func() error { err := Exec(testContext(t), s, Exists("/a")); return err }, "/a"},
			{func() error { return Exec(testContext(t), s, AddWatch("/a", false)) }, ""},
			{func() error { err := Exec(testContext(t), s, Exists("/x")); return err }, "/a"},
			{func() error { return Exec(testContext(t), s, AddWatch("/a", true)) }, "/a"},
			{func() error { err := Exec(testContext(t), s, Exists("/x")); return err }, "/a /a/b"},
		} {
			zktest.Must(t, step.ask())
			if got := strings.Join(nodes(), " "); got != step.want {
				t.Errorf("events of %q, not %q", got, step.want)
			}
		}
	})
}

// A session whose events nobody reads ends with an error once too many are kept. No event before
// the end is lost.
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
				go func() { // ends when the connection does
					for p.event("/a" + strings.Repeat("/b", 5000)) {
						sent.Add(1)
					}
				}()
			}
			return true
		})
	}
	bubble(t, serve, func(t *testing.T, s *Session) {
		zktest.Must(t, Exec(testContext(t), s, AddWatch("/a", true)))
		time.Sleep(time.Second)
		err := Exec(testContext(t), s, Exists("/x"))
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
		zktest.Must(t, s.Connect(testContext(t), ""))
		if err := Exec(testContext(t), s, Exists("/x")); err != nil {
			t.Errorf("after connect: %v", err)
		}
		<-ended(first)
	})
}
